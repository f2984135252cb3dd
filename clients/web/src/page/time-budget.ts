// Bounds the main thread's time for what only makes a text look better; what is over it is shown plain.

/** Milliseconds to spend, which come back with a share of the time that passes. */
export class TimeBudget {
  readonly #most: number;
  readonly #share: number;
  #left: number;
  #at = performance.now();

  constructor(most_ms: number, share: number) {
    this.#most = most_ms;
    this.#share = share;
    this.#left = most_ms;
  }

  /** The result of a piece of work, null where nothing is left for it. */
  spend<T>(work: () => T): T | null {
    const begun = performance.now();
    this.#left = Math.min(this.#most, this.#left + (begun - this.#at) * this.#share);
    this.#at = begun;
    if (this.#left <= 0) return null;
    try {
      return work();
    } finally {
      this.#left -= performance.now() - begun;
    }
  }
}
