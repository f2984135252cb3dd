// Generated from the protocol's schema by `python -m docs.generate`. Do not edit.

/**
 * How a subagent is held narrower than the agent that made it. `tools` are the names it may use, None: all of its
 * parent's; `deny` are names or globs it may not.
 */
export interface AgentBounds {
  readonly tools?: readonly string[] | null;
  readonly deny?: readonly string[];
  readonly read_only?: boolean;
  readonly max_turns?: number | null;
  readonly timeout_s?: number | null;
}

/** A subagent has completed a task, or is `closed`; `summary` is its last message, or the error. */
export interface AgentCompleted {
  readonly type: "agent.completed";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly success: boolean;
  readonly summary?: string | null;
  readonly reason?: "cancelled" | "closed" | "completed" | "failed" | "interrupted";
}

/** An agent begins; its system prompt and core tools are fixed here, so that resume sends the same bytes. */
export interface AgentCreated {
  readonly type: "agent.created";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly name: string;
  readonly provider: string;
  readonly model: string;
  readonly system_prompt: string;
  readonly core_tools: readonly string[];
  readonly profile?: string | null;
  readonly parent_agent_id?: string | null;
  readonly background?: boolean;
  readonly bounds?: AgentBounds | null;
  readonly settings?: ModelSettings | null;
  readonly call_id?: string;
  readonly task?: string | null;
}

/** Text as it arrives; `offset` counts the characters of this message and source before it. */
export interface AgentOutput {
  readonly type: "agent.output";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly source: "model" | "refusal" | "thinking";
  readonly text: string;
  readonly mode: "append" | "write";
  readonly offset?: number;
}

/** An agent starts or stops working; `reason` says what it waits for. */
export interface AgentStatusChanged {
  readonly type: "agent.status_changed";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly status: "active" | "blocked" | "done" | "error" | "idle";
  readonly reason?: string | null;
}

/** One agent of a session. `streaming` is what it is just saying, by kind of text. */
export interface AgentView {
  readonly id: string;
  readonly name?: string;
  readonly provider?: string;
  readonly model?: string;
  readonly parent_agent_id?: string | null;
  readonly status?: "active" | "blocked" | "done" | "error" | "idle";
  readonly reason?: string | null;
  readonly streaming?: Readonly<Record<string, string>>;
  readonly queued?: Readonly<Record<string, Message>>;
  readonly plans?: Readonly<Record<string, Plan>>;
  readonly plan_id?: string | null;
  readonly context_tokens?: number;
  readonly context_limit?: number | null;
  readonly summary?: string | null;
  readonly working?: boolean;
}

/** A background task began, ended or was stopped. */
export interface BackgroundUpdated {
  readonly type: "background.updated";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly task_id: string;
  readonly tool: string;
  readonly plugin: string;
  readonly status: "cancelled" | "completed" | "failed" | "interrupted" | "running";
  readonly call_id?: string | null;
  readonly result?: ToolResult | null;
}

/** Some bytes of a blob from `offset`, and how many it has. */
export interface Blob {
  readonly type: "blob";
  readonly size_bytes: number;
  readonly data: string;
  readonly offset?: number;
}

/**
 * Bytes of an image, document or long result that an event of the session names: by its SHA-256, or by its handle
 * (`result:…`). At most 256 kB come at once.
 */
export interface BlobRequest {
  readonly type: "blob.request";
  readonly id?: string;
  readonly session_id?: string;
  readonly blob: string;
  readonly offset?: number;
  readonly limit?: number;
}

/**
 * A budget is used up (`reached`), or the user has allowed more (`extended`, with the limit that holds now). `limit` and
 * `used` are in `unit`; `step` is by how much it is extended at a time.
 */
export interface BudgetUpdated {
  readonly type: "budget.updated";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly status: "extended" | "reached";
  readonly scope: "day" | "session" | "turn";
  readonly unit: "s" | "tokens" | "usd";
  readonly limit: number;
  readonly used: number;
  readonly step: number;
}

/** Stop the command or other program that a running call waits for; the call then fails, and the turn continues. */
export interface CallStop {
  readonly type: "call.stop";
  readonly id?: string;
  readonly session_id?: string;
  readonly call_id: string;
}

/** A call that runs. `output` is the newest of what it has printed, `output_start` the characters before that. */
export interface CallView {
  readonly call_id: string;
  readonly agent_id: string;
  readonly tool: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly started_at: string;
  readonly output?: string;
  readonly output_start?: number;
}

/** The model or the server asks the user; at the deadline, the `default` of each question counts. */
export interface ClarificationQuestion {
  readonly type: "clarification.question";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly question_id: string;
  readonly call_id: string;
  readonly context: string;
  readonly questions: readonly (Readonly<Record<string, unknown>>)[];
  readonly deadline?: string | null;
  readonly outcome?: boolean;
}

/** The user has answered, each question with its answer (None: left open). */
export interface ClarificationResolved {
  readonly type: "clarification.resolved";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly question_id: string;
  readonly qa_pairs: readonly (readonly [string, string | null])[];
  readonly by?: string;
}

/** Answer the model's questions, in their order; None leaves one open. */
export interface ClarificationResponse {
  readonly type: "clarification.response";
  readonly id?: string;
  readonly session_id?: string;
  readonly question_id: string;
  readonly answers: readonly (string | null)[];
}

/**
 * What this client is sent: questions that it answers, text as it is streamed, and session information: `session.info`,
 * `command.list` and `memory.list`. Without these, `session.info` comes only as a snapshot that replaces events.
 */
export interface ClientConfig {
  readonly type: "client.config";
  readonly id?: string;
  readonly session_id?: string;
  readonly answers?: boolean | null;
  readonly deltas?: boolean | null;
  readonly info?: boolean | null;
}

/** A client that is attached to a session. */
export interface ClientView {
  readonly id: string;
  readonly name: string;
  readonly role: "approver" | "owner" | "viewer";
  readonly answers?: boolean;
}

/** A command the user can type after `/`: `parameters` is how its arguments are written, where its plugin says so. */
export interface CommandEntry {
  readonly name: string;
  readonly description: string;
  readonly parameters?: string;
  readonly plugin?: string;
  readonly is_prompt?: boolean;
}

/** Run a user command of a plugin. */
export interface CommandExecute {
  readonly type: "command.execute";
  readonly id?: string;
  readonly session_id?: string;
  readonly name: string;
  readonly arguments?: string;
}

/**
 * All commands of the session's plugins; sent when the session is loaded and when they change. A stored session has
 * none. A client's own commands are not among them.
 */
export interface CommandList {
  readonly type: "command.list";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly commands: readonly CommandEntry[];
}

/** A command that has ended, and its exit code, where there is one. */
export interface CommandRun {
  readonly command: string;
  readonly exit_code?: number | null;
}

/**
 * A part of a model's context and its size: `system`, `instructions` of a plugin, `tools`, `user`, `enrichment`,
 * `assistant`, `thinking`, `calls`, `results`, `summary`.
 */
export interface ContextBlock {
  readonly kind: string;
  readonly tokens: number;
  readonly name?: string;
}

/** The user pinned a text, which every compaction keeps; with `gone` the pin was removed. */
export interface ContextPinned {
  readonly type: "context.pinned";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly pin_id: string;
  readonly text?: string;
  readonly gone?: boolean;
}

/**
 * What a log says of a conversation, each list with the newest last: what was asked, which constraints the user has
 * set, how turns ended, files, commands, decisions, calls by tool (how many succeeded and failed), and the newest calls.
 */
export interface ContextRecord {
  readonly goal?: string;
  readonly requests?: readonly string[];
  readonly constraints?: readonly string[];
  readonly done?: readonly string[];
  readonly files?: readonly FileTouch[];
  readonly commands?: readonly CommandRun[];
  readonly decisions?: readonly string[];
  readonly tools?: Readonly<Record<string, readonly [number, number]>>;
  readonly calls?: readonly string[];
}

/** Tokens of the context and its limit: reported by the provider, else estimated. */
export interface ContextUpdated {
  readonly type: "context.updated";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly total_tokens: number;
  readonly context_limit: number | null;
  readonly percent_used: number | null;
  readonly limit_source?: "assumed" | "catalogue" | "learned" | "server" | "setting" | null;
  readonly threshold_percent?: number | null;
  readonly blocks?: readonly ContextBlock[];
}

/** Success; `notice` is for the user: another session has the name just given. */
export interface Done {
  readonly type: "done";
  readonly notice?: string;
}

/** An error outside of calls. */
export interface ErrorRaised {
  readonly type: "error";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly error: Problem;
}

/** An image or document that a client sends along; its bytes go into the session's store. */
export interface File {
  readonly name: string;
  readonly mime_type: string;
  readonly data: string;
}

/**
 * A file that is no longer as it was. `path` is relative to the workspace, absolute outside of it. A directory stands
 * for all that is in it. Lines that the new content has and the old one had not are `added`, the other way `removed`:
 * None where they were not counted.
 */
export interface FileChange {
  readonly path: string;
  readonly change: "created" | "deleted" | "modified";
  readonly added?: number | null;
  readonly removed?: number | null;
  readonly directory?: boolean;
}

/**
 * Answer a `file.request`: with the `content` of a file that was to be read, with neither for one that was written, or
 * with the `problem` that prevented it. An answer after the deadline has no effect.
 */
export interface FileResponse {
  readonly type: "file.response";
  readonly id?: string;
  readonly session_id?: string;
  readonly request_id: string;
  readonly content?: string | null;
  readonly problem?: string;
}

/**
 * A file that tools have read, changed, or were given (`used`), and the SHA-256 of its content afterwards, where that is
 * known.
 */
export interface FileTouch {
  readonly path: string;
  readonly change: "created" | "deleted" | "modified" | "read" | "used";
  readonly sha256?: string;
}

/** Files that were found: paths relative to the workspace. */
export interface Files {
  readonly type: "files";
  readonly paths: readonly string[];
}

/**
 * Files of the session's workspace whose path has the letters of the query in their order, the best match first; those
 * that `.gitignore` names are left out.
 */
export interface FilesFind {
  readonly type: "files.find";
  readonly id?: string;
  readonly session_id?: string;
  readonly query?: string;
  readonly limit?: number;
}

/**
 * The context was compacted: messages are removed from what the model is sent, new ones are added. With a
 * `problem` nothing has changed. Token counts are estimates.
 */
export interface GcCompleted {
  readonly type: "gc.completed";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly strategy: string;
  readonly reason: string;
  readonly tokens_before: number;
  readonly tokens_after: number;
  readonly dropped?: readonly string[];
  readonly added?: readonly Placed[];
  readonly note?: string | null;
  readonly notification?: string | null;
  readonly problem?: string | null;
  readonly usage?: Usage | null;
  readonly cost_usd?: number | null;
  readonly cleared?: number;
  readonly learned_limit?: number | null;
  readonly record?: ContextRecord | null;
}

/**
 * A decision that outlives its question.
 *
 * `shape` is what it covers: for a shell command its structure, for others the exact arguments or None for the tool.
 */
export interface Grant {
  readonly id: string;
  readonly effect: "allow" | "deny";
  readonly tool: string;
  readonly scope: "always" | "call" | "idle" | "once" | "session" | "turn";
  readonly shape?: string | null;
  readonly workspace?: string | null;
  readonly created_by?: string;
  readonly evidence?: string;
  readonly expires?: string | null;
  readonly created_at?: string;
  readonly access?: SandboxAccess | null;
}

/** The first frame of a client. `token` only where it did not come in a header. */
export interface Hello {
  readonly type: "hello";
  readonly protocol: number;
  readonly client?: string;
  readonly name?: string;
  readonly token?: string;
}

/** A part of the conversation, oldest first; `before_seq` asks for what comes before, None when nothing does. */
export interface History {
  readonly type: "history";
  readonly events: readonly (SessionCreated | SessionUpdated | SessionInfo | AgentCreated | AgentOutput | AgentStatusChanged | AgentCompleted | MessageUser | MessageModel | MidTurnQueued | MidTurnInjected | TurnProgress | TurnCompleted | ContextUpdated | ContextPinned | GcCompleted | ToolCallStart | ToolOutput | ToolCallEnd | ToolActivated | ToolsStatus | BackgroundUpdated | WorkspaceFilesChanged | PermissionRequested | PermissionResolved | PermissionGranted | PermissionRevoked | ClarificationQuestion | ClarificationResolved | BudgetUpdated | PlanUpdated | PlanCleared | SharedUpdated | WaypointUpdated | CommandList | MemoryList | ErrorRaised | Retry | InitProgress | SystemMessage)[];
  readonly before_seq?: number | null;
}

/**
 * The part of the conversation before an event, the newest of it first asked for; None: from the end. With `types`,
 * the stored events of these types instead; an answer may then have none, and `before_seq` to ask further back.
 */
export interface HistoryRequest {
  readonly type: "history.request";
  readonly id?: string;
  readonly session_id?: string;
  readonly before_seq?: number | null;
  readonly limit?: number;
  readonly types?: readonly string[];
}

/**
 * Something slow is being made ready (a download, or the reading of a prompt by the embedded model); counts in `unit`,
 * such as `bytes` or `tokens`, `total` None while unknown.
 */
export interface InitProgress {
  readonly type: "init.progress";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly step: string;
  readonly done: number;
  readonly total?: number | null;
  readonly unit?: string;
}

/** The live state of a session that is in no log, for a client that was just sent the events it missed. */
export interface Live {
  readonly agents?: Readonly<Record<string, LiveAgent>>;
  readonly outputs?: Readonly<Record<string, readonly [number, string]>>;
  readonly commands?: readonly CommandEntry[];
  readonly memories?: readonly MemoryEntry[];
  readonly memory_count?: number;
}

/** What of an agent no log holds. */
export interface LiveAgent {
  readonly status?: "active" | "blocked" | "done" | "error" | "idle";
  readonly reason?: string | null;
  readonly streaming?: Readonly<Record<string, string>>;
  readonly context_tokens?: number;
  readonly context_limit?: number | null;
}

/** An image or document; its bytes are the blob with this SHA-256. */
export interface Media {
  readonly type: "media";
  readonly mime_type: string;
  readonly blob: string;
  readonly size_bytes?: number;
  readonly name?: string | null;
}

/** A note that is kept about a workspace: its beginning in one line, not its content; `at` is ISO 8601 UTC. */
export interface MemoryEntry {
  readonly id: string;
  readonly description: string;
  readonly tags?: readonly string[];
  readonly at?: string;
}

/**
 * The newest notes about the session's workspace, newest first, and their number; sent when the session is loaded and
 * when any session has changed them.
 */
export interface MemoryList {
  readonly type: "memory.list";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly memories: readonly MemoryEntry[];
  readonly total?: number;
}

/**
 * One message of a conversation; tool results travel together in one message with role `tool`. `by` is its author,
 * as the server knows its clients by name.
 */
export interface Message {
  readonly role: "assistant" | "tool" | "user";
  readonly parts: readonly (Text | Thinking | ToolCall | ToolResult | Media | Refusal)[];
  readonly id?: string;
  readonly source?: "child" | "parent" | "system" | "user";
  readonly provider?: string | null;
  readonly model?: string | null;
  readonly once?: string;
  readonly by?: string;
}

/** The model has spoken: one whole reply and what it cost. */
export interface MessageModel {
  readonly type: "message.model";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly message: Message;
  readonly turn_id: string;
  readonly finish_reason: "cancelled" | "error" | "length" | "refusal" | "stop" | "tool_calls" | "unknown";
  readonly usage?: Usage | null;
  readonly cost_usd?: number | null;
  readonly context_tokens?: number;
  readonly context_limit?: number | null;
  readonly limit_source?: "assumed" | "catalogue" | "learned" | "server" | "setting" | null;
}

/**
 * Send a message to the agent; while it works, the message waits for the next pause. `once` is an idempotency key of
 * the client: a second message with the same key is not taken, so that one whose reply was lost can be sent again.
 */
export interface MessageSend {
  readonly type: "message.send";
  readonly id?: string;
  readonly session_id?: string;
  readonly text: string;
  readonly attachments?: readonly Media[];
  readonly files?: readonly File[];
  readonly once?: string;
  readonly check_prompt?: boolean;
}

/** A message to the agent; outside a turn it starts one. */
export interface MessageUser {
  readonly type: "message.user";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly message: Message;
  readonly turn_id: string;
}

/** A waiting message has joined the conversation (its `message.user` stands beside this event). */
export interface MidTurnInjected {
  readonly type: "mid_turn.injected";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly message_id: string;
}

/** A message came while the model worked; it waits for the next pause. */
export interface MidTurnQueued {
  readonly type: "mid_turn.queued";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly message: Message;
}

/** How to sample: each None leaves it to the provider. */
export interface ModelSettings {
  readonly temperature?: number | null;
  readonly max_output_tokens?: number | null;
  readonly effort?: "high" | "low" | "medium" | "minimal" | null;
  readonly stop?: readonly string[] | null;
  readonly response_schema?: Readonly<Record<string, unknown>> | null;
}

/** A provider's own bytes for a part (an encrypted thought, an item id), given back to that dialect unchanged. */
export interface Opaque {
  readonly dialect: string;
  readonly data: unknown;
}

/** The session that was made, found or attached to. Attached, its state or what was missed comes next. */
export interface Opened {
  readonly type: "opened";
  readonly session_id: string;
  readonly seq: number;
  readonly name?: string | null;
  readonly again?: boolean;
  readonly before?: number;
  readonly provider?: string;
  readonly model?: string;
  readonly reason?: string;
  readonly agent_id?: string;
  readonly notice?: string;
  readonly workspace?: string;
}

/** A link for one browser; it is valid once, and for some seconds. */
export interface Pairing {
  readonly type: "pairing";
  readonly url: string;
  readonly valid_s: number;
}

/**
 * Make a link that pairs one browser with the server, with this role; for its owner on its own machine. The server
 * listens on loopback from then on, if it does not listen on the network already.
 */
export interface PairingCreate {
  readonly type: "pairing.create";
  readonly id?: string;
  readonly session_id?: string;
  readonly role?: "approver" | "owner" | "viewer";
}

/** How a call came to be allowed or denied. */
export interface Permission {
  readonly decision: "allowed" | "denied";
  readonly reason: string;
  readonly method: string;
  readonly access?: SandboxAccess | null;
}

/** A decision now holds for more than one question. */
export interface PermissionGranted {
  readonly type: "permission.granted";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly grant: Grant;
}

/**
 * May this call run? An answer is bound to the digest of tool, arguments and directory; at the deadline, `default`
 * counts.
 */
export interface PermissionRequested {
  readonly type: "permission.requested";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly question_id: string;
  readonly call_id: string;
  readonly tool: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly digest: string;
  readonly reason: string;
  readonly options: readonly string[];
  readonly shape?: string | null;
  readonly deadline?: string | null;
  readonly default?: string;
  readonly access?: SandboxAccess | null;
  readonly preview?: string;
}

/** The question is settled: by whom, and how. */
export interface PermissionResolved {
  readonly type: "permission.resolved";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly question_id: string;
  readonly call_id: string;
  readonly answer: string;
  readonly permission: Permission;
  readonly by?: string;
}

/** Answer a permission question: y, n, a, t, i, once, never, all, e (with `arguments`) or c (with `comment`). */
export interface PermissionResponse {
  readonly type: "permission.response";
  readonly id?: string;
  readonly session_id?: string;
  readonly question_id: string;
  readonly answer: string;
  readonly arguments?: Readonly<Record<string, unknown>> | null;
  readonly comment?: string | null;
  readonly digest?: string;
}

/** A grant no longer holds. */
export interface PermissionRevoked {
  readonly type: "permission.revoked";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly grant_id: string;
  readonly reason?: string;
}

/** A new message of a shortened history, and the id of the message it stands before; empty for the end. */
export interface Placed {
  readonly message: Message;
  readonly before?: string;
}

/** A plan: what is to be done, step by step. */
export interface Plan {
  readonly id: string;
  readonly title: string;
  readonly steps: readonly PlanStep[];
  readonly status?: "active" | "cancelled" | "completed" | "draft" | "failed";
  readonly summary?: string | null;
}

/** A plan was removed. */
export interface PlanCleared {
  readonly type: "plan.cleared";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly plan_id: string;
}

/** One step of a plan. */
export interface PlanStep {
  readonly id: string;
  readonly description: string;
  readonly status?: "completed" | "failed" | "in_progress" | "pending" | "skipped";
  readonly result?: string | null;
}

/** A plan as it is now. */
export interface PlanUpdated {
  readonly type: "plan.updated";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly plan: Plan;
}

/** Why something failed: a stable code, a message that says what to do, and whether a retry can help. */
export interface Problem {
  readonly code: string;
  readonly message: string;
  readonly retryable?: boolean;
  readonly traceback?: string | null;
  readonly details?: Readonly<Record<string, unknown>> | null;
}

/** The model declined, in its own words. */
export interface Refusal {
  readonly type: "refusal";
  readonly text: string;
}

/** The answer to the command with this id: a result, or what went wrong. */
export interface Reply {
  readonly type: "reply";
  readonly id: string;
  readonly result?: Opened | Taken | Settled | Said | Done | Sessions | History | Blob | Pairing | Files | null;
  readonly error?: Problem | null;
}

/** A model call will be tried again; what it has streamed so far is void. */
export interface Retry {
  readonly type: "retry";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly wait_s: number;
  readonly error: Problem;
}

/** The output of a user command. */
export interface Said {
  readonly type: "said";
  readonly text: string;
}

/**
 * What a process is started with: its profile and what is opened beyond it.
 *
 * `domains` are hosts the proxy connects it to (`pypi.org`, `*.npmjs.org`, `host:8443`, `*` for every public host),
 * `paths` absolute directories or files outside the workspace that it may change; `control` lets it change the control
 * files of the workspace.
 */
export interface SandboxAccess {
  readonly profile?: "full" | "read-only" | "workspace-write";
  readonly domains?: readonly string[];
  readonly paths?: readonly string[];
  readonly control?: boolean;
}

/**
 * How the commands of a session are confined: the back end (empty: none), the profiles, the mode, and what the user has
 * opened to all that may write. `full` says that a rule allows commands without a sandbox.
 */
export interface SandboxView {
  readonly backend?: string;
  readonly profiles?: readonly ("full" | "read-only" | "workspace-write")[];
  readonly mode?: "accept-edits" | "ask" | "auto" | "plan" | "read-only";
  readonly domains?: readonly string[];
  readonly paths?: readonly string[];
  readonly full?: boolean;
}

/** Have the open sessions begin anew, each once it rests, under configuration, permissions and trust as they are now. */
export interface ServerReload {
  readonly type: "server.reload";
  readonly id?: string;
  readonly session_id?: string;
}

/**
 * Watch a session, by id, unique prefix or name. `after_seq` is the last event the client has seen, None when it has
 * nothing: then, or when it is far behind, the whole state comes first.
 */
export interface SessionAttach {
  readonly type: "session.attach";
  readonly id?: string;
  readonly session_id?: string;
  readonly after_seq?: number | null;
  readonly serves_files?: "read" | "write" | null;
}

/**
 * Create a session, and attach to it unless `attach` is false. What is None comes from the user's settings.
 *
 * With `session_id` (an id, unique prefix or name), or with `resume`, a stored session is resumed instead, with these
 * options; a busy one refuses. `once` as in `message.send`: the same key gives the same session.
 */
export interface SessionCreate {
  readonly type: "session.create";
  readonly id?: string;
  readonly session_id?: string;
  readonly workspace: string;
  readonly name?: string | null;
  readonly provider?: string | null;
  readonly model?: string | null;
  readonly base_url?: string | null;
  readonly system_prompt?: string | null;
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  readonly yes?: boolean;
  readonly read_only?: boolean;
  readonly mode?: "accept-edits" | "ask" | "auto" | "plan" | "read-only" | null;
  readonly sandbox?: "full" | "workspace-write" | null;
  readonly allow_domains?: readonly string[];
  readonly add_dirs?: readonly string[];
  readonly plugins?: readonly string[] | null;
  readonly environment?: Readonly<Record<string, string>>;
  readonly alone?: boolean;
  readonly interface?: string | null;
  readonly temperature?: number | null;
  readonly effort?: "high" | "low" | "medium" | "minimal" | null;
  readonly max_output_tokens?: number | null;
  readonly stop?: readonly string[] | null;
  readonly max_turns?: number | null;
  readonly budget?: readonly string[];
  readonly response_schema?: Readonly<Record<string, unknown>> | null;
  readonly history?: readonly Message[];
  readonly mcp_servers?: Readonly<Record<string, unknown>>;
  readonly resume?: boolean;
  readonly passing?: boolean;
  readonly attach?: boolean;
  readonly serves_files?: "read" | "write" | null;
  readonly once?: string;
}

/** The first event of every log. */
export interface SessionCreated {
  readonly type: "session.created";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly workspace: string;
  readonly name?: string | null;
  readonly jaato_version?: string;
}

/** Remove a session for good. */
export interface SessionDelete {
  readonly type: "session.delete";
  readonly id?: string;
  readonly session_id?: string;
}

/** Detach from a session, which continues. */
export interface SessionDetach {
  readonly type: "session.detach";
  readonly id?: string;
  readonly session_id?: string;
}

/** A stored session as a list shows it; times are ISO 8601 UTC. */
export interface SessionEntry {
  readonly id: string;
  readonly workspace: string;
  readonly name: string | null;
  readonly description: string | null;
  readonly provider: string;
  readonly model: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly last_seq: number;
  readonly is_loaded?: boolean;
  readonly busy?: boolean;
  readonly interrupted?: boolean;
  readonly questions?: number;
  readonly found?: string | null;
}

/**
 * Create a session with the events of another one up to `seq`, or to its end. `once` as in `message.send`: the same key
 * gives the same session.
 */
export interface SessionFork {
  readonly type: "session.fork";
  readonly id?: string;
  readonly session_id?: string;
  readonly seq?: number | null;
  readonly name?: string | null;
  readonly once?: string;
}

/**
 * What a client needs to draw the session from nothing, or from what it has: `state` is the whole of it as of `seq`,
 * `live` only what no log holds. Sent again when tools, models or sessions change, then without either.
 */
export interface SessionInfo {
  readonly type: "session.info";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly session_name: string | null;
  readonly workspace: string;
  readonly model_provider: string;
  readonly model_name: string;
  readonly tools: readonly (Readonly<Record<string, unknown>>)[];
  readonly models: readonly string[];
  readonly sessions: readonly SessionEntry[];
  readonly clients?: readonly ClientView[];
  readonly at_work?: boolean;
  readonly state?: State | null;
  readonly live?: Live | null;
  readonly sandbox?: SandboxView | null;
}

/** The stored sessions, newest first, of one workspace or all; with `query`, those whose text has these words. */
export interface SessionList {
  readonly type: "session.list";
  readonly id?: string;
  readonly session_id?: string;
  readonly workspace?: string | null;
  readonly query?: string | null;
  readonly limit?: number;
  readonly cursor?: string | null;
}

/** Wait until working subagents are done and their results are delivered to the agent. */
export interface SessionSettle {
  readonly type: "session.settle";
  readonly id?: string;
  readonly session_id?: string;
}

/** Stop what the agent is doing, now; with `turn_id` only if that turn still runs, so that a late stop ends no other. */
export interface SessionStop {
  readonly type: "session.stop";
  readonly id?: string;
  readonly session_id?: string;
  readonly turn_id?: string;
}

/** Change a session's name, description or model; what is None stays. */
export interface SessionUpdate {
  readonly type: "session.update";
  readonly id?: string;
  readonly session_id?: string;
  readonly name?: string | null;
  readonly description?: string | null;
  readonly provider?: string | null;
  readonly model?: string | null;
}

/** A name, description, model or mode was changed; what is None stays. */
export interface SessionUpdated {
  readonly type: "session.updated";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly name?: string | null;
  readonly description?: string | null;
  readonly provider?: string | null;
  readonly model?: string | null;
  readonly mode?: "accept-edits" | "ask" | "auto" | "plan" | "read-only" | null;
  readonly switched?: boolean;
}

/** One page of stored sessions. */
export interface Sessions {
  readonly type: "session.list";
  readonly sessions: readonly SessionEntry[];
  readonly cursor?: string | null;
}

/** Whether this answer was the one that counted, and else whose it was. */
export interface Settled {
  readonly type: "settled";
  readonly accepted: boolean;
  readonly by?: string;
  readonly answer?: string;
}

/** A shared value of the agents of a session has changed; without a value it was removed. */
export interface SharedUpdated {
  readonly type: "shared.updated";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly key: string;
  readonly value?: unknown;
  readonly gone?: boolean;
}

/** A session. Only `jaato.client.state.apply` changes it. */
export interface State {
  readonly session_id?: string;
  readonly seq?: number;
  readonly workspace?: string;
  readonly name?: string | null;
  readonly description?: string | null;
  readonly created_at?: string;
  readonly updated_at?: string;
  readonly provider?: string;
  readonly model?: string;
  readonly mode?: "accept-edits" | "ask" | "auto" | "plan" | "read-only" | null;
  readonly root_agent_id?: string;
  readonly agents?: Readonly<Record<string, AgentView>>;
  readonly entries?: readonly (MessageUser | MessageModel | ToolCallEnd | TurnCompleted | GcCompleted)[];
  readonly earlier?: number;
  readonly chars?: number;
  readonly calls?: Readonly<Record<string, CallView>>;
  readonly questions?: Readonly<Record<string, PermissionRequested | ClarificationQuestion>>;
  readonly tasks?: Readonly<Record<string, BackgroundUpdated>>;
  readonly background_calls?: Readonly<Record<string, CallView>>;
  readonly shared?: Readonly<Record<string, unknown>>;
  readonly waypoints?: Readonly<Record<string, Waypoint>>;
  readonly waypoint?: string;
  readonly files?: Readonly<Record<string, FileChange>>;
  readonly files_left_out?: number;
  readonly commands?: readonly CommandEntry[];
  readonly memories?: readonly MemoryEntry[];
  readonly memory_count?: number;
  readonly activated?: readonly string[];
  readonly disabled?: readonly string[];
  readonly open_turn?: string | null;
  readonly turns?: number;
  readonly usage?: Usage;
  readonly cost_usd?: number;
  readonly unpriced?: boolean;
  readonly problem?: Problem | null;
}

/** A notice from the runtime to the people watching. */
export interface SystemMessage {
  readonly type: "system.message";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly text: string;
  readonly level?: "error" | "info" | "warning";
  readonly is_deleted?: boolean;
}

/** A message is in the log: it has opened a turn, or waits for the next pause. */
export interface Taken {
  readonly type: "taken";
  readonly seq: number;
  readonly queued?: boolean;
  readonly again?: boolean;
}

/** Stop a background task. */
export interface TaskStop {
  readonly type: "task.stop";
  readonly id?: string;
  readonly session_id?: string;
  readonly task_id: string;
}

/** Plain text. */
export interface Text {
  readonly type: "text";
  readonly text: string;
  readonly opaque?: Opaque | null;
}

/** What the model thought; `opaque` carries the signature its own dialect wants back. */
export interface Thinking {
  readonly type: "thinking";
  readonly text: string;
  readonly opaque?: Opaque | null;
}

/** Discoverable tools are declared to the model from now on, in this order, after those before them. */
export interface ToolActivated {
  readonly type: "tool.activated";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly tools: readonly string[];
}

/**
 * A call the model asks for; `call_id` is ours, `provider_id` the provider's own.
 *
 * `malformed` is the raw argument text when it was no JSON object; `arguments` is then empty.
 */
export interface ToolCall {
  readonly type: "tool_call";
  readonly call_id: string;
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly provider_id?: string | null;
  readonly malformed?: string | null;
  readonly opaque?: Opaque | null;
}

/** A call has its result; durable before the model sees it. Its duration does not include the wait for a permission. */
export interface ToolCallEnd {
  readonly type: "tool.call_end";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly call_id: string;
  readonly tool: string;
  readonly result: ToolResult;
  readonly duration_s: number;
  readonly permission?: Permission | null;
  readonly continuation_id?: string | null;
  readonly show_output?: boolean;
  readonly show_popup?: boolean;
  readonly origin?: Readonly<Record<string, string>> | null;
  readonly arguments?: Readonly<Record<string, unknown>> | null;
  readonly edited?: Readonly<Record<string, unknown>> | null;
}

/** A permitted call is about to run; durable before the tool does anything. */
export interface ToolCallStart {
  readonly type: "tool.call_start";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly call_id: string;
  readonly tool: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly turn_id?: string | null;
  readonly permission?: Permission | null;
  readonly digest?: string | null;
  readonly origin?: Readonly<Record<string, string>> | null;
}

/** Output of a running call; `offset` counts the characters before it. */
export interface ToolOutput {
  readonly type: "tool.output";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly call_id: string;
  readonly text: string;
  readonly offset?: number;
}

/** What a call gave back: content for the model, `structured` for programs, a `handle` to all of it if cut. */
export interface ToolResult {
  readonly type: "tool_result";
  readonly call_id: string;
  readonly name: string;
  readonly ok: boolean;
  readonly content?: readonly (Text | Media)[];
  readonly structured?: unknown;
  readonly handle?: string | null;
  readonly error?: Problem | null;
  readonly provider_id?: string | null;
}

/** Switch tools off (or on again). */
export interface ToolsDisable {
  readonly type: "tools.disable";
  readonly id?: string;
  readonly session_id?: string;
  readonly tools: readonly string[];
  readonly disabled?: boolean;
}

/** The tools that are switched off now; declared ones stay declared and answer `tool_disabled`. */
export interface ToolsStatus {
  readonly type: "tools.status";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly disabled: readonly string[];
}

/** A turn has ended; `reason` says how. */
export interface TurnCompleted {
  readonly type: "turn.completed";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly turn_id: string;
  readonly reason: "cancelled" | "error" | "interrupted" | "length" | "limit" | "refusal" | "stop";
  readonly usage: Usage;
  readonly model_calls: number;
  readonly tool_calls: number;
  readonly duration_s: number;
  readonly cost_usd?: number | null;
  readonly error?: Problem | null;
}

/** Resume a turn that a crash interrupted; calls that had started are not repeated. */
export interface TurnContinue {
  readonly type: "turn.continue";
  readonly id?: string;
  readonly session_id?: string;
}

/** What the turn has used so far. */
export interface TurnProgress {
  readonly type: "turn.progress";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly turn_id: string;
  readonly model_calls: number;
  readonly tool_calls: number;
  readonly usage: Usage;
}

/** Tokens of one model call; `input_tokens` includes the cached ones (OpenTelemetry GenAI names). */
export interface Usage {
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly cached_input_tokens?: number;
  readonly cache_write_tokens?: number;
  readonly reasoning_tokens?: number;
}

/**
 * A point of a session to come back to: who made it, from which it went on, and how far the conversation was.
 *
 * `mark` is where it stands in the backups of the workspace. A `ceiling` was made by a restore, of what was there before.
 */
export interface Waypoint {
  readonly id: string;
  readonly description: string;
  readonly owner: "model" | "user";
  readonly parent?: string | null;
  readonly created_at?: string;
  readonly message_count?: number;
  readonly turn_index?: number;
  readonly preview?: string;
  readonly mark?: string;
  readonly ceiling?: boolean;
}

/**
 * A waypoint was made, restored to or deleted; `current` is where the session stands now, and `saved` whether the
 * files are as they are there. `mark` is that moment in the backups.
 */
export interface WaypointUpdated {
  readonly type: "waypoint.updated";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly action: "created" | "deleted" | "restored";
  readonly waypoint: Waypoint;
  readonly current: string;
  readonly mark?: string;
  readonly saved?: boolean;
}

/** The server's answer to `hello`. */
export interface Welcome {
  readonly type: "welcome";
  readonly protocol: number;
  readonly server: string;
  readonly client_id: string;
  readonly role: "approver" | "owner" | "viewer";
  readonly state_dir?: string;
  readonly home?: string;
}

/**
 * Files that a call or a user command has changed, each once, reported at its end: by the file tools, patches, templates,
 * notebooks' own files, archives, databases, and by going back to a waypoint or undoing. What a shell command or code of
 * a notebook changes is not known here. After a crash the changes of a call are reported, also those it was about to make. `more` were
 * left out.
 */
export interface WorkspaceFilesChanged {
  readonly type: "workspace.files_changed";
  readonly session_id: string;
  readonly agent_id: string;
  readonly seq: number;
  readonly timestamp: string;
  readonly files: readonly FileChange[];
  readonly call_id?: string;
  readonly more?: number;
}

/** Every event. */
export type ProtocolEvent =
  | SessionCreated
  | SessionUpdated
  | SessionInfo
  | AgentCreated
  | AgentOutput
  | AgentStatusChanged
  | AgentCompleted
  | MessageUser
  | MessageModel
  | MidTurnQueued
  | MidTurnInjected
  | TurnProgress
  | TurnCompleted
  | ContextUpdated
  | ContextPinned
  | GcCompleted
  | ToolCallStart
  | ToolOutput
  | ToolCallEnd
  | ToolActivated
  | ToolsStatus
  | BackgroundUpdated
  | WorkspaceFilesChanged
  | PermissionRequested
  | PermissionResolved
  | PermissionGranted
  | PermissionRevoked
  | ClarificationQuestion
  | ClarificationResolved
  | BudgetUpdated
  | PlanUpdated
  | PlanCleared
  | SharedUpdated
  | WaypointUpdated
  | CommandList
  | MemoryList
  | ErrorRaised
  | Retry
  | InitProgress
  | SystemMessage;

/** The types of events that are in no log. */
export const EPHEMERAL: ReadonlySet<string> = new Set([
  "agent.output",
  "agent.status_changed",
  "command.list",
  "context.updated",
  "init.progress",
  "memory.list",
  "retry",
  "session.info",
  "system.message",
  "tool.output",
  "turn.progress",
]);

/** Every command. */
export type Command =
  | MessageSend
  | PermissionResponse
  | ClarificationResponse
  | SessionStop
  | SessionSettle
  | TaskStop
  | CallStop
  | TurnContinue
  | CommandExecute
  | ToolsDisable
  | SessionAttach
  | SessionDetach
  | FileResponse
  | SessionCreate
  | SessionUpdate
  | SessionFork
  | SessionDelete
  | SessionList
  | HistoryRequest
  | BlobRequest
  | ClientConfig
  | ServerReload
  | PairingCreate
  | FilesFind;
