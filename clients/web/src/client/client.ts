// Sessions of a server: each has the state that its events make, and comes back by `seq` after a lost connection.

import { CommandError, Connection, type Command, type Options, type ResultOf, type Status } from "./connection.ts";
import { apply, emptyState, loadState, type State } from "./state.ts";
import type * as protocol from "./types.ts";

const BLOB_BYTES = 1 << 18;

export interface ClientOptions extends Pick<Options, "url" | "token" | "name"> {
  onStatus?: (status: Status) => void;
}

/** A client of one server. */
export class Client {
  readonly connection: Connection;
  #sessions = new Map<string, Session>();

  constructor(options: ClientOptions) {
    this.connection = new Connection({
      ...options,
      onEvent: (event) => this.#sessions.get(event.session_id)?.take(event),
      onWelcome: () => this.#resume(),
    });
  }

  /** Send a command. Rejects with `CommandError`. */
  ask<C extends Command>(command: C): Promise<ResultOf<C>> {
    return this.connection.ask(command);
  }

  /** The stored sessions, newest first; with `query` those with these words. */
  sessions(options: Omit<protocol.SessionList, "type"> = {}): Promise<protocol.Sessions> {
    return this.ask({ type: "session.list", ...options });
  }

  /** Create a session and watch it. */
  async create(options: Omit<protocol.SessionCreate, "type">): Promise<Session> {
    const made = await this.ask({ type: "session.create", attach: false, once: newKey(), ...options });
    return this.attach(made.session_id);
  }

  /** Watch a session, by id, unique prefix or name, until it is detached as often as it was attached. */
  async attach(id: string): Promise<Session> {
    let session = this.#sessions.get(id);
    if (!session) {
      session = new Session(this, id);
      session.opened = this.ask({ type: "session.attach", session_id: id });
      this.#sessions.set(id, session);
    }
    session.watchers += 1;
    const opened = await session.opened.catch((error: unknown) => {
      this.#forget(session);
      throw error;
    });
    if (opened.session_id === id) return session;
    this.#forget(session);
    return this.attach(opened.session_id);
  }

  /** Watch a session no longer; it continues. */
  detach(session: Session): void {
    session.watchers -= 1;
    if (session.watchers > 0 || !this.#forget(session)) return;
    if (this.connection.status === "online") void this.ask({ type: "session.detach", session_id: session.id }).catch(() => undefined);
  }

  #forget(session: Session): boolean {
    return this.#sessions.get(session.id) === session && this.#sessions.delete(session.id);
  }

  /** End the connection. */
  close(): void {
    this.connection.close();
  }

  #resume(): void {
    for (const session of this.#sessions.values()) {
      if (!session.known || session.isRemoved) continue;
      this.ask({ type: "session.attach", session_id: session.id, after_seq: session.state.seq }).then(
        () => session.found(),
        (error: Error) => session.lost(error),
      );
    }
  }
}

type Listener = (event: protocol.ProtocolEvent | undefined) => void;

/** One session that is watched. `state` is changed in place; listeners are called after each event. */
export class Session {
  readonly id: string;
  state: State = emptyState();
  info: protocol.SessionInfo | undefined;
  /** Whether the first snapshot has arrived. */
  known = false;
  /** Why it cannot be watched any more. */
  error: Error | undefined;
  /** How many parts of the program watch it, and the reply of the server to the first. */
  watchers = 0;
  opened!: Promise<protocol.Opened>;
  #client: Client;
  #listeners = new Set<Listener>();

  constructor(client: Client, id: string) {
    this.#client = client;
    this.id = id;
  }

  /** Whether it was removed, so that nothing more comes. */
  get isRemoved(): boolean {
    return this.error instanceof CommandError && this.error.code === "session_not_found";
  }

  /** Be called after each event; undefined for a change without one. Returns the function that stops it. */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Send a message; while the agent works, it waits for the next pause. */
  send(text: string, files: readonly protocol.File[] = []): Promise<protocol.Taken> {
    const command = { type: "message.send", session_id: this.id, text, once: newKey(), check_prompt: true } as const;
    return this.#client.ask(files.length ? { ...command, files } : command);
  }

  /** Answer a permission question; `digest` binds the answer to the call that was shown. */
  answer(
    question: protocol.PermissionRequested,
    answer: string,
    more: { arguments?: Record<string, unknown>; comment?: string } = {},
  ): Promise<protocol.Settled> {
    const { question_id, digest } = question;
    return this.#client.ask({ type: "permission.response", session_id: this.id, question_id, answer, digest, ...more });
  }

  /** Answer the model's questions, in their order; null leaves one open. */
  clarify(question: protocol.ClarificationQuestion, answers: readonly (string | null)[]): Promise<protocol.Settled> {
    return this.#client.ask({
      type: "clarification.response", session_id: this.id, question_id: question.question_id, answers,
    });
  }

  /** Stop what the agent does; a turn that begins later is not stopped. */
  stop(): Promise<protocol.Done> {
    return this.#client.ask({ type: "session.stop", session_id: this.id, turn_id: this.state.open_turn ?? "" });
  }

  /** Run a user command; what it printed. */
  async run(name: string, given = ""): Promise<string> {
    return (await this.#client.ask({ type: "command.execute", session_id: this.id, name, arguments: given })).text;
  }

  /** The part of the conversation before an event; with `types`, the stored events of these types. */
  history(before: number | null, limit = 100, types: readonly string[] = []): Promise<protocol.History> {
    return this.#client.ask({ type: "history.request", session_id: this.id, before_seq: before, limit, types });
  }

  /** The bytes of an image, a document or a long result. */
  async blob(blob: string, most = 16 << 20): Promise<Uint8Array<ArrayBuffer>> {
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    let offset = 0;
    for (let size = 1; offset < size; ) {
      const piece = await this.#client.ask({ type: "blob.request", session_id: this.id, blob, offset, limit: BLOB_BYTES });
      size = piece.size_bytes;
      if (size > most) throw new CommandError({ code: "too_large", message: `It has ${size} bytes.` });
      const data = fromBase64(piece.data);
      if (!data.length) break;
      pieces.push(data);
      offset += data.length;
    }
    const all = new Uint8Array(offset);
    let at = 0;
    for (const piece of pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return all;
  }

  /** Take in an event of the server. */
  take(event: protocol.ProtocolEvent): void {
    if (event.type === "session.info") {
      this.info = event;
      if (event.state) {
        this.state = loadState(event.state);
        this.known = true;
      }
    }
    if (event.type === "system.message" && event.is_deleted) return this.lost(new CommandError({ code: "session_not_found", message: event.text }));
    apply(this.state, event);
    for (const listener of this.#listeners) listener(event);
  }

  /** The session cannot be watched any more. */
  lost(error: Error): void {
    this.#change(error);
  }

  /** The session can be watched again. */
  found(): void {
    if (this.error) this.#change(undefined);
  }

  #change(error: Error | undefined): void {
    this.error = error;
    for (const listener of this.#listeners) listener(undefined);
  }
}

/** An idempotency key. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
