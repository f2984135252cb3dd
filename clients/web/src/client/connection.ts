// One connection to the server: hello, commands with their replies, frames; reconnects with exponential backoff.

import { parseJson, writeJson } from "./exact-json.ts";
import type * as protocol from "./types.ts";

export type Command = protocol.Command;
export type Result = NonNullable<protocol.Reply["result"]>;
/** `refused`: the server does not accept the token; `outdated`: it speaks another version of the protocol. */
export type Status = "connecting" | "online" | "offline" | "refused" | "outdated" | "closed";

/** The result of a command, by its type. */
export type ResultOf<C extends Command> =
  C extends protocol.SessionCreate | protocol.SessionAttach | protocol.SessionFork ? protocol.Opened
  : C extends protocol.MessageSend ? protocol.Taken
  : C extends protocol.PermissionResponse | protocol.ClarificationResponse ? protocol.Settled
  : C extends protocol.CommandExecute ? protocol.Said
  : C extends protocol.SessionList ? protocol.Sessions
  : C extends protocol.HistoryRequest ? protocol.History
  : C extends protocol.BlobRequest ? protocol.Blob
  : C extends protocol.PairingCreate ? protocol.Pairing
  : C extends protocol.FilesFind ? protocol.Files
  : protocol.Done;

const PROTOCOL = 1;
const CLOSE_UNAUTHORIZED = 4401;
const CLOSE_OTHER_PROTOCOL = 4426;
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;
/** After so long without a frame the server is asked whether it is still there. */
const HEARTBEAT_MS = 25_000;
const TIMEOUT_MS = 10_000;
/** What is sent on a slow link may take minutes and holds up the question: while so much is on its way, the server has longer. */
const LONG_BYTES = 1 << 16;
const LONG_TIMEOUT_MS = 60_000;
/** The longest frame that the server takes from an owner, and from others. */
const FRAME_BYTES = 16 << 20;
const OTHERS_FRAME_BYTES = 1 << 20;

/** Commands that may be sent again after a lost connection: they only read, or the server knows them again. */
const REPEATABLE = new Set([
  "message.send", "permission.response", "clarification.response", "session.create", "session.fork", "session.attach",
  "session.list", "history.request", "blob.request", "client.config", "session.stop", "files.find",
]);

const NOT_SENT = "There is no connection to the server, and nothing was sent; try again when it is back.";

/** A command failed; `code` is stable, the message says what to do. */
export class CommandError extends Error {
  readonly code: string;
  constructor(problem: { code: string; message: string }) {
    super(problem.message);
    this.code = problem.code;
  }
}

export interface Options {
  /** Where the server is: `wss://HOST:PORT/v1/connect`. Never take it from a link. */
  url: string;
  /** Read anew for each connection. */
  token?: () => string;
  /** What others see of this client. */
  name?: string;
  onStatus?: (status: Status, welcome?: protocol.Welcome) => void;
  onEvent: (event: protocol.ProtocolEvent) => void;
  /** Called when the connection is there, also after it was lost, before waiting commands are sent again. */
  onWelcome?: () => void;
}

interface Waiting {
  command: Command;
  bytes: number;
  /** Whether it was sent on the current connection. */
  sent: boolean;
  resolve: (result: Result) => void;
  reject: (error: Error) => void;
}

/** A connection that comes back by itself until it is closed or refused. */
export class Connection {
  status: Status = "connecting";
  welcome: protocol.Welcome | undefined;
  #options: Options;
  #socket: WebSocket | undefined;
  #waiting = new Map<string, Waiting>();
  #ids = 0;
  #backoff_ms = MIN_BACKOFF_MS;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #heartbeat: ReturnType<typeof setTimeout> | undefined;
  /** Whether the server was asked for a frame, and none has come since. */
  #isProbing = false;

  constructor(options: Options) {
    this.#options = options;
    this.#open();
  }

  /** Send a command; its result, once the server has replied. Rejects with `CommandError`. */
  ask<C extends Command>(command: C): Promise<ResultOf<C>> {
    this.#ids += 1;
    const id = String(this.#ids);
    const sent = { ...command, id };
    const frame = writeJson(sent);
    return new Promise((resolve, reject) => {
      const bytes = new Blob([frame]).size;
      if (bytes > (this.welcome?.role === "owner" ? FRAME_BYTES : OTHERS_FRAME_BYTES)) {
        reject(new CommandError({ code: "too_large", message: "This is too much for one message; send less at a time." }));
        return;
      }
      if (this.status === "closed" || this.status === "refused" || this.status === "outdated") {
        reject(new CommandError({ code: "disconnected", message: "There is no connection to the server." }));
        return;
      }
      if (this.status === "offline" && !REPEATABLE.has(command.type)) {
        reject(new CommandError({ code: "disconnected", message: NOT_SENT }));
        return;
      }
      this.#waiting.set(id, { command: sent, bytes, sent: this.status === "online", resolve: resolve as (result: Result) => void, reject });
      if (this.status === "online") this.#socket?.send(frame);
    });
  }

  /** Look now whether the server is there, as after a computer has slept: connect, or give up a dead connection soon. */
  check(): void {
    if (this.status === "online" && !this.#isProbing) this.#probe();
    if (this.status !== "offline") return;
    clearTimeout(this.#timer);
    this.#open();
  }

  /** End the connection for good. */
  close(): void {
    this.#end("closed", "The connection was closed.");
    this.#socket?.close(1000);
  }

  #open(): void {
    this.#set("connecting");
    const socket = new WebSocket(this.#options.url);
    this.#socket = socket;
    this.#heartbeat = setTimeout(() => this.#drop(socket), TIMEOUT_MS);
    socket.onopen = () => {
      const token = this.#options.token?.() ?? "";
      const hello: protocol.Hello = { type: "hello", protocol: PROTOCOL, client: "web", name: this.#options.name ?? "" };
      socket.send(JSON.stringify(token ? { ...hello, token } : hello));
    };
    socket.onmessage = (message: MessageEvent<string>) => {
      if (socket === this.#socket && this.status !== "closed") this.#take(parseJson(message.data) as protocol.Welcome | protocol.Reply | protocol.ProtocolEvent);
    };
    socket.onclose = (event: CloseEvent) => {
      if (socket === this.#socket && this.status !== "closed") this.#lost(event.code);
    };
  }

  #take(frame: protocol.Welcome | protocol.Reply | protocol.ProtocolEvent): void {
    this.#resetHeartbeat();
    switch (frame.type) {
      case "welcome": {
        this.welcome = frame;
        this.#backoff_ms = MIN_BACKOFF_MS;
        const again = [...this.#waiting.values()];
        this.#set("online");
        this.#options.onWelcome?.();
        for (const waiting of again) {
          waiting.sent = true;
          this.#socket?.send(writeJson(waiting.command));
        }
        return;
      }
      case "reply": {
        const waiting = this.#waiting.get(frame.id);
        this.#waiting.delete(frame.id);
        if (frame.error) waiting?.reject(new CommandError(frame.error));
        else if (frame.result) waiting?.resolve(frame.result);
        return;
      }
      default:
        this.#options.onEvent(frame);
    }
  }

  #lost(code: number): void {
    clearTimeout(this.#heartbeat);
    if (code === CLOSE_UNAUTHORIZED) return this.#end("refused", "The server does not accept this browser.");
    if (code === CLOSE_OTHER_PROTOCOL) return this.#end("outdated", "The server has another version; reload the page.");
    for (const [id, waiting] of this.#waiting) {
      if (REPEATABLE.has(waiting.command.type)) continue;
      this.#waiting.delete(id);
      const message = waiting.sent
        ? "The connection was lost before the server replied; look whether it was done."
        : NOT_SENT;
      waiting.reject(new CommandError({ code: "disconnected", message }));
    }
    this.#set("offline");
    this.#timer = setTimeout(() => this.#open(), this.#backoff_ms * (0.5 + Math.random() / 2));
    this.#backoff_ms = Math.min(this.#backoff_ms * 2, MAX_BACKOFF_MS);
  }

  #end(status: Status, message: string): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#heartbeat);
    this.#set(status);
    for (const waiting of this.#waiting.values()) waiting.reject(new CommandError({ code: "disconnected", message }));
    this.#waiting.clear();
  }

  #set(status: Status): void {
    this.status = status;
    this.#options.onStatus?.(status, this.welcome);
  }

  /** Notice a connection that is dead without having been closed. */
  #resetHeartbeat(): void {
    this.#isProbing = false;
    clearTimeout(this.#heartbeat);
    this.#heartbeat = setTimeout(() => this.#probe(), HEARTBEAT_MS);
  }

  /** Ask the server for any frame, and give up the connection without one. */
  #probe(): void {
    this.#isProbing = true;
    clearTimeout(this.#heartbeat);
    const socket = this.#socket;
    void this.ask({ type: "client.config" }).catch(() => undefined);
    if (socket) this.#expectFrame(socket);
  }

  /** Wait for a frame; while much is being sent, as long as that goes on its way. */
  #expectFrame(socket: WebSocket): void {
    const left = socket.bufferedAmount;
    const bytes = [...this.#waiting.values()].reduce((sum, waiting) => sum + waiting.bytes, 0);
    const isLong = bytes > LONG_BYTES;
    const isMoving = () => isLong && socket.bufferedAmount < left;
    this.#heartbeat = setTimeout(() => (isMoving() ? this.#expectFrame(socket) : this.#drop(socket)), isLong ? LONG_TIMEOUT_MS : TIMEOUT_MS);
  }

  /** Give up a connection on which nothing comes. */
  #drop(socket: WebSocket | undefined): void {
    if (socket !== this.#socket || this.status === "closed") return;
    this.#socket = undefined;
    socket?.close();
    this.#lost(1006);
  }
}
