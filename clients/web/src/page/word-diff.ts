// Which words of a changed line have changed.

/** A piece of a line; `changed` is not in the other line. */
export interface Piece {
  text: string;
  changed: boolean;
}

/** Of longer lines, only the common start and end are compared. */
const MOST_CHARS = 2_000;
/** Still longer ones are not compared. */
const TOO_LONG_CHARS = 20_000;
const MOST_WORDS = 300;
/** Lines that share less are not the same line changed. */
const LEAST_COMMON = 0.3;
const WORD = /[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu;

/** Both lines in pieces; null for lines that have too little in common for marks to help. */
export function changedWords(old: string, now: string): [Piece[], Piece[]] | null {
  if (old === now || Math.max(old.length, now.length) > TOO_LONG_CHARS) return null;
  const [before, after] = [wordsOf(old), wordsOf(now)];
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  const inner: [string[], string[]] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const short = old.length <= MOST_CHARS && now.length <= MOST_CHARS;
  const common = short && inner[0].length <= MOST_WORDS && inner[1].length <= MOST_WORDS ? commonWords(...inner) : [new Set<number>(), new Set<number>()];
  const pieces = (words: readonly string[], kept: ReadonlySet<number>) => {
    const last = words.length - end;
    return joined(words.map((text, index) => ({ text, changed: index >= start && index < last && !kept.has(index - start) })));
  };
  const found: [Piece[], Piece[]] = [pieces(before, common[0]!), pieces(after, common[1]!)];
  const shared = (side: Piece[]) => side.reduce((sum, piece) => sum + (piece.changed ? 0 : piece.text.trim().length), 0);
  return Math.max(shared(found[0]), shared(found[1])) < LEAST_COMMON * Math.min(old.trim().length, now.trim().length) ? null : found;
}

/** The words of a line; a very long one character by character, of which only start and end are compared. */
function wordsOf(line: string): string[] {
  return line.length > MOST_CHARS ? Array.from(line) : (line.match(WORD) ?? []);
}

/** The places of the words in both that form the longest common sequence. */
function commonWords(before: readonly string[], after: readonly string[]): [Set<number>, Set<number>] {
  const width = after.length + 1;
  const lengths = new Uint16Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = before[i] === after[j] ? lengths[(i + 1) * width + j + 1]! + 1 : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  const kept: [Set<number>, Set<number>] = [new Set(), new Set()];
  for (let i = 0, j = 0; i < before.length && j < after.length; ) {
    if (before[i] === after[j]) {
      kept[0].add(i++);
      kept[1].add(j++);
    } else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) i += 1;
    else j += 1;
  }
  return kept;
}

/** Neighbours of one kind as one piece; blanks between changed words belong to the change. */
function joined(pieces: readonly Piece[]): Piece[] {
  const found: Piece[] = [];
  pieces.forEach((piece, index) => {
    const between = !piece.changed && !piece.text.trim() && found.at(-1)?.changed === true && pieces[index + 1]?.changed === true;
    const changed = piece.changed || between;
    const last = found.at(-1);
    if (last && last.changed === changed) last.text += piece.text;
    else found.push({ text: piece.text, changed });
  });
  return found;
}
