// A conversation on the screen: a snapshot of the store, and the events after it. Pure.
//
// `state` is {messages, stream, running, seq, questions, runs, waiting, notice, elsewhere}. Stored messages
// have an id; what events brought has none until the store's rows take its place (`settled`).

/**
 * @typedef {{messages: any[], older?: boolean, stream: {text: string, reasoning: string} | null, asked: any, running: boolean, elsewhere: boolean,
 *   recovered: boolean, runs: Record<string, any>, questions: Record<string, any>, waiting: any[], notice: string, info: any, seq: number,
 *   status?: string, problem?: string, taken?: string, dropped?: string, settle?: number}} State
 * @typedef {{type: string, seq: number, session_id: string, payload: any}} Event
 */

/** The state that a snapshot (`Opened`) shows. `kept` are older messages that are loaded already. @returns {State} */
export function opened(snapshot, kept = []) {
  const first = snapshot.messages.find((message) => message.id != null)?.id ?? Infinity;
  const older = kept.filter((message) => message.id != null && message.id < first);
  const questions = {};
  for (const question of snapshot.pending) questions[question.payload.request_id] = { kind: question.type, ...question.payload };
  return {
    messages: [...older, ...snapshot.messages.map((message) => ({ ...message, fresh: true }))],
    older: older.length ? undefined : Boolean(snapshot.older),
    stream: snapshot.inflight ? { text: snapshot.inflight.assistant || "", reasoning: "" } : null,
    asked: snapshot.inflight ? { text: snapshot.inflight.user, timestamp: snapshot.inflight.timestamp } : null,
    running: snapshot.running || snapshot.status === "elsewhere",
    elsewhere: snapshot.status === "elsewhere",
    recovered: Boolean(snapshot.inflight?.recovered),
    runs: {},
    questions,
    waiting: snapshot.waiting || [],
    notice: (snapshot.asked_elsewhere || []).join("\n"),
    info: snapshot.info,
    seq: snapshot.latest_seq,
  };
}

const lastUser = (messages) => {
  for (let at = messages.length - 1; at >= 0; at--) if (messages[at].role === "user") return at;
  return -1;
};
const knows = (messages, role, timestamp) =>
  timestamp != null && messages.some((message) => message.role === role && message.timestamp === timestamp);

/** The state after one event. @param {State} state @param {Event} event @returns {State} */
export function reduce(state, event) {
  if (event.seq <= state.seq) return state;
  const next = { ...state, seq: event.seq };
  const change = CHANGES[event.type];
  return change ? change(next, event.payload || {}) : next;
}

const CHANGES = {
  __proto__: null,
  "message.start"(state, facts) {
    if (facts.restart) return { ...state, stream: { text: "", reasoning: "" } };
    const next = {
      ...state, running: true, stream: { text: "", reasoning: "" }, runs: state.running ? state.runs : {}, status: "",
      waiting: state.waiting.filter((one) => one.message_id !== facts.prompt_id), taken: facts.prompt_id,
      asked: { text: facts.prompt, timestamp: facts.timestamp },
    };
    if (facts.prompt && !knows(state.messages, "user", facts.timestamp))
      next.messages = [...state.messages, { role: "user", content: facts.prompt, timestamp: facts.timestamp }];
    return next;
  },
  "message.delta": (state, { text }) =>
    ({ ...state, running: true, status: "", stream: { ...(state.stream || { reasoning: "" }), text: (state.stream?.text || "") + text } }),
  "reasoning.delta": (state, { text }) =>
    ({ ...state, stream: { text: state.stream?.text || "", reasoning: (state.stream?.reasoning || "") + text } }),
  "message.interim"(state, { text }) {
    const from = lastUser(state.messages);
    const known = state.messages.findIndex((message, at) =>
      at > from && message.fresh && message.role === "assistant" && message.content === text && !message.told);
    const stream = { text: "", reasoning: "" };
    if (known < 0) return { ...state, stream, messages: [...state.messages, { role: "assistant", content: text }] };
    return { ...state, stream, messages: state.messages.map((message, at) => (at === known ? { ...message, told: true } : message)) };
  },
  "message.steered": (state, { text }) => ({ ...state, messages: [...state.messages, { role: "user", content: text, steered: true }] }),
  "message.complete"(state, facts) {
    const next = {
      ...state, running: false, stream: null, asked: null, recovered: false, elsewhere: false, questions: {}, settle: state.seq, status: "",
      problem: facts.warning || (facts.status === "error" ? facts.text : ""), dropped: facts.dropped,
    };
    const lost = facts.dropped && state.waiting.find((one) => one.message_id === facts.dropped);
    if (lost) {
      next.waiting = state.waiting.filter((one) => one !== lost);
      next.notice = "Stopped before it began, and not kept: " + lost.text;
    }
    if (facts.text && !knows(state.messages, "assistant", facts.timestamp) && facts.status !== "error")
      next.messages = [...state.messages, { role: "assistant", content: facts.text, timestamp: facts.timestamp }];
    return next;
  },
  "tool.start"(state, facts) {
    const run = { name: facts.name, context: facts.context, args: facts.args, began: Date.now() / 1000 };
    const runs = { ...state.runs, [facts.tool_id]: { ...run, ...state.runs[facts.tool_id] } };
    if (state.messages.some((message) => message.tool_calls?.some((made) => made.id === facts.tool_id))) return { ...state, runs };
    const made = { id: facts.tool_id, function: { name: facts.name, arguments: JSON.stringify(facts.args) } };
    return { ...state, runs, messages: [...state.messages, { role: "assistant", content: "", tool_calls: [made] }] };
  },
  "tool.progress": (state, { tool_id, text }) =>
    ({ ...state, runs: { ...state.runs, [tool_id]: { ...state.runs[tool_id], progress: text } } }),
  "tool.complete": (state, facts) => ({
    ...state,
    runs: { ...state.runs, [facts.tool_id]: { ...state.runs[facts.tool_id], result: facts.result_text, seconds: facts.duration_s, failed: facts.is_error } },
  }),
  "approval.request": (state, facts) => ({ ...state, questions: { ...state.questions, [facts.request_id]: { kind: "approval.request", ...facts } } }),
  "clarify.request": (state, facts) => ({ ...state, questions: { ...state.questions, [facts.request_id]: { kind: "clarify.request", ...facts } } }),
  "sudo.request": (state, facts) => ({ ...state, questions: { ...state.questions, [facts.request_id]: { kind: "sudo.request", ...facts } } }),
  "request.closed": closed,
  "sudo.expire": closed,
  "status.update"(state, { kind, text }) {
    return kind === "notice" || kind === "warn" ? { ...state, notice: text } : { ...state, status: text };
  },
  "session.info": (state, facts) => ({ ...state, info: facts, running: facts.running || state.running }),
  "session.title": (state, { title }) => ({ ...state, info: { ...state.info, title } }),
  "background.complete": (state, { text }) => ({ ...state, notice: text }),
  "review.summary": (state, { text }) => ({ ...state, notice: text }),
  error: (state, { message }) => ({ ...state, running: false, stream: null, problem: message }),
};

function closed(state, { request_id }) {
  const { [request_id]: gone, ...questions } = state.questions;
  return { ...state, questions };
}

/** The state once the store's rows after `after` are known: they take the place of what events brought. */
export function settled(state, rows, after) {
  const stored = state.messages.filter((message) => message.id != null && message.id <= after);
  return { ...state, messages: [...stored, ...rows] };
}
export const lastStored = (messages) => {
  for (let at = messages.length - 1; at >= 0; at--) if (messages[at].id != null) return messages[at].id;
  return 0;
};

/** What is drawn: messages as rows, with the tools of a step in one. */
export function rowsOf(messages, runs) {
  const rows = [], results = new Map();
  for (const message of messages) if (message.role === "tool" && message.tool_call_id) results.set(message.tool_call_id, message);
  let tools = null;
  messages.forEach((message, at) => {
    if (message.role === "tool") return;
    const text = message.role === "assistant" ? message.content : null;
    if (message.role === "assistant" && message.tool_calls?.length) {
      if (hasText(text)) { tools = null; rows.push({ kind: "assistant", message, at }); }
      if (!tools) { tools = { kind: "tools", calls: [], at, message }; rows.push(tools); }
      for (const made of message.tool_calls) {
        const result = results.get(made.id), run = (Object.hasOwn(runs, made.id) && runs[made.id]) || {};
        tools.calls.push({
          id: made.id, name: made.function?.name || made.name || "tool", arguments: made.function?.arguments ?? made.arguments ?? "",
          result: result ? result.content : run.result, done: Boolean(result) || run.result !== undefined,
          failed: run.failed, seconds: run.seconds ?? spent(message, result), progress: run.progress, unknown: result?.outcome === "unknown",
          message, resultId: result?.id,
        });
      }
      return;
    }
    if (message.role === "assistant" && !hasText(text) && !message.reasoning) return;
    tools = null;
    rows.push({ kind: message.note ? "note" : message.role, message, at });
  });
  return rows;
}
const hasText = (content) => (typeof content === "string" ? content.trim() !== "" : Boolean(content?.length));
const spent = (message, result) => (result?.timestamp && message.timestamp ? Math.max(0, result.timestamp - message.timestamp) : undefined);
