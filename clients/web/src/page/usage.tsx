// What the session has used: the context as a bar, tokens and money by turn as a chart, and totals.

import { useEffect, useState } from "preact/hooks";

import type { ContextBlock, TurnCompleted } from "../client/index.ts";
import { isOwner, type View } from "./store.ts";
import { counted, oneLine } from "./text.ts";
import { duration, price, sumOf, tokens } from "./wording.ts";

const SHOWN_TURNS = 40;
const HEIGHT = 90;

export function Usage({ view, agentId }: { view: View; agentId: string }) {
  const { state } = view.session;
  const { usage } = state;
  const turns = view.items.filter((item): item is TurnCompleted => item.type === "turn.completed" && item.agent_id === agentId).slice(-SHOWN_TURNS);
  const input = usage.input_tokens ?? 0;
  const cached = usage.cached_input_tokens ?? 0;
  const facts: [string, string][] = [
    ["Input", counted(input, "token")],
    ["of it cached", input ? `${cached.toLocaleString("en")} (${Math.round((cached / input) * 100)} %)` : "0"],
    ["Output", counted(usage.output_tokens ?? 0, "token")],
    ["Price", price(state.unpriced ? null : state.cost_usd)],
    ["Turns", String(state.turns)],
  ];
  return (
    <>
      <h4>Context</h4>
      <ContextBar view={view} agentId={agentId} />
      <h4>Tokens by turn</h4>
      {turns.length ? <Chart turns={turns} view={view} /> : <p class="muted">No turn has ended yet.</p>}
      <h4>Session</h4>
      <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {state.unpriced ? <p class="muted">Some model calls have no known price; the others cost {price(state.cost_usd)}.</p> : null}
    </>
  );
}

/** The kinds of blocks, and the colour of each. */
const KINDS: Record<string, [label: string, colour: string]> = {
  system: ["System prompt", "c0"], instructions: ["Instructions", "c1"], tools: ["Tools", "c2"], user: ["Your messages", "c3"], enrichment: ["Added to messages", "c4"], assistant: ["Replies", "c5"],
  thinking: ["Thinking", "c6"], calls: ["Calls", "c8"], results: ["Results", "c9"], summary: ["Summary", "c7"], notes: ["Notes", "c10"],
};

function kindOf(kind: string): [label: string, colour: string] {
  return (Object.hasOwn(KINDS, kind) && KINDS[kind]) || [oneLine(kind, 30), "c7"];
}

/** What fills the context of the main agent: as of its last call, and where that was before the page was opened, as the server has it. */
function useBlocks(view: View, used: number): readonly ContextBlock[] {
  const [fetched, setFetched] = useState<readonly ContextBlock[]>([]);
  useEffect(() => {
    if (!used || view.blocks.length || !isOwner(view.client)) return;
    view.session.run("context", "json").then((text) => setFetched((JSON.parse(text) as { blocks: ContextBlock[] }).blocks), () => undefined);
  }, [view]);
  return view.blocks.length ? view.blocks : fetched;
}

function ContextBar({ view, agentId }: { view: View; agentId: string }) {
  const agent = view.session.state.agents[agentId];
  const used = agent?.context_tokens ?? 0;
  const limit = agent?.context_limit ?? used;
  const isRoot = agentId === view.session.state.root_agent_id;
  const blocks = useBlocks(view, isRoot ? used : 0);
  if (!used || !limit) return <p class="muted">Nothing was sent to the model yet.</p>;
  const sums = new Map<string, number>();
  if (isRoot) for (const block of blocks) sums.set(block.kind, (sums.get(block.kind) ?? 0) + block.tokens);
  const parts = sums.size ? [...sums] : [["system", used] as [string, number]];
  return (
    <>
      <div class="context-bar" role="img" aria-label={`${used.toLocaleString("en")} of ${limit.toLocaleString("en")} tokens are used`}>
        {parts.map(([kind, count]) => <span key={kind} class={kindOf(kind)[1]} style={{ width: `${Math.min(100, (count / limit) * 100)}%` }} />)}
      </div>
      <p class="muted">{tokens(used)} of {tokens(limit)} tokens</p>
      {sums.size ? <ul class="legend-list">{parts.map(([kind, count]) => <li key={kind}><span class={`key ${kindOf(kind)[1]}`} /><span class="grow">{kindOf(kind)[0]}</span> <span class="muted">{tokens(count)}</span></li>)}</ul> : null}
    </>
  );
}

/** Bars of input (cached and not) and output for each turn with those of its subagents, and the price so far as a line. */
function Chart({ turns, view }: { turns: readonly TurnCompleted[]; view: View }) {
  const rows = turns.map((turn) => {
    const { usage, cost } = sumOf([turn, ...view.innerTurns(turn)]);
    const cached = usage.cached_input_tokens;
    return { turn, cached, fresh: usage.input_tokens - cached, output: usage.output_tokens, cost };
  });
  const most = Math.max(1, ...rows.map((row) => row.cached + row.fresh + row.output));
  const spent = rows.reduce<number[]>((sums, row) => [...sums, (sums.at(-1) ?? 0) + (row.cost ?? 0)], []);
  const money = spent.at(-1) ?? 0;
  const width = 280 / Math.max(8, rows.length);
  const h = (count: number) => (count / most) * HEIGHT;
  return (
    <>
      <p class="muted small">{counted(rows.length, "turn")}, at most {tokens(most)} tokens</p>
      <svg class="chart" viewBox={`0 0 280 ${HEIGHT + 4}`} role="img" aria-label="Tokens by turn">
        {rows.map(({ turn, cached, fresh, output, cost }, index) => (
          <g key={turn.seq}>
            <title>{`${tokens(cached)} cached, ${tokens(fresh)} new, ${tokens(output)} out, ${duration(turn.duration_s)}${cost === null ? "" : `, ${price(cost)}`}`}</title>
            <rect class="cached" x={index * width + 1} width={width - 2} y={HEIGHT - h(cached)} height={h(cached)} />
            <rect class="fresh" x={index * width + 1} width={width - 2} y={HEIGHT - h(cached + fresh)} height={h(fresh)} />
            <rect class="output-bar" x={index * width + 1} width={width - 2} y={HEIGHT - h(cached + fresh + output)} height={h(output)} />
          </g>
        ))}
        {money > 0 ? <polyline class="money" points={[0, ...spent].map((sum, index) => `${Math.max(0, index - 0.5) * width},${HEIGHT - (sum / money) * (HEIGHT - 4)}`).join(" ")} /> : null}
        <line class="axis" x1={0} x2={280} y1={HEIGHT + 0.5} y2={HEIGHT + 0.5} />
      </svg>
      <ul class="legend">
        <li><span class="key cached" />cached</li><li><span class="key fresh" />input</li><li><span class="key output-bar" />output</li>
        {money > 0 ? <li><span class="key money" />price so far, {price(money)}</li> : null}
      </ul>
    </>
  );
}
