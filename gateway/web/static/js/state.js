// What the page knows, and how each frame of the gateway changes it. No DOM, no clock: frames in, state out.

const REMEMBERED = 500;

export const nothing = {
  connection: { phase: "connecting", failures: 0 },
  commands: [],
  longest: 1_000_000,
  conversations: null,
  conversation: null,
  loaded: false,
  session: null,
  name: "",
  entries: [],
  earlier: "none",
  waiting: [],
  questions: [],
  live: null,
  unanswered: [],
  settled: [],
  problem: null,
};

export function opened(state, conversation) {
  const known = state.conversations?.find((one) => one.conversation === conversation);
  return {
    ...state,
    conversation,
    loaded: false,
    session: null,
    name: known?.name ?? "New conversation",
    entries: [],
    earlier: "none",
    waiting: [],
    questions: [],
    live: null,
    unanswered: [],
    problem: null,
  };
}

export function heard(state, frame) {
  if (frame.conversation && frame.conversation !== state.conversation) return state;
  return hearers[frame.type]?.(state, frame) ?? state;
}

const hearers = {
  hello: (state, { commands, longest_message }) => ({ ...state, commands, longest: longest_message }),

  conversations: (state, { conversations }) => {
    const here = conversations.find((one) => one.conversation === state.conversation);
    return { ...state, conversations, name: here?.name ?? state.name };
  },

  snapshot: (state, { session, name, entries, earlier, waiting, questions, live }) => ({
    ...state,
    loaded: true,
    session,
    name,
    entries,
    earlier,
    questions,
    live: live && { ...live, notes: [] },
    waiting: withoutSaid(waiting, entries),
  }),

  earlier: (state, { entries, earlier }) => ({
    ...state,
    earlier,
    entries: [...entries.filter((one) => one.seq < (state.entries[0]?.seq ?? Infinity)), ...state.entries],
  }),

  entries: (state, { entries }) => {
    const last = state.entries.at(-1)?.seq ?? -1;
    const all = [...state.entries, ...entries.filter((one) => one.seq > last)];
    return { ...state, entries: all, waiting: withoutSaid(state.waiting, entries) };
  },

  // Only ever adds: a message leaves when it is in the transcript or settled, or it would be gone for a moment in between.
  waiting: (state, { waiting }) => {
    const here = new Set(state.waiting.map((one) => one.id));
    const settled = new Set(state.settled);
    const more = waiting.filter((one) => !here.has(one.id) && !settled.has(one.id));
    return { ...state, waiting: withoutSaid([...state.waiting, ...more], state.entries) };
  },

  questions: (state, { questions }) => ({ ...state, questions }),

  began: (state, { turn, messages }) => ({ ...state, live: { turn, messages, text: "", tools: [], notes: [] } }),

  happened: (state, { turn, event }) => {
    const live = state.live?.turn === turn ? state.live : { turn, messages: [], text: "", tools: [], notes: [] };
    return { ...state, live: grown(live, event) };
  },

  arrived: (state, { turn }) => (state.live?.turn === turn ? { ...state, live: null } : state),

  settled: (state, { messages }) => {
    const over = new Set(messages);
    const left = state.waiting.filter((one) => over.has(one.id) && !one.text.startsWith("/"));
    return {
      ...state,
      live: state.live && state.live.messages.some((id) => over.has(id)) ? null : state.live,
      waiting: state.waiting.filter((one) => !over.has(one.id)),
      unanswered: [...state.unanswered, ...left],
      settled: [...state.settled, ...messages].slice(-REMEMBERED),
    };
  },

  error: (state, { reason }) => ({ ...state, problem: reason }),
};

// A message of ours is stored: from now on the gateway answers for it.
export function stored(state, message) {
  const known = [...state.waiting, ...state.entries.map((one) => ({ id: one.message_id }))].some((one) => one.id === message.id);
  if (known || message.conversation !== state.conversation || state.settled.includes(message.id)) return state;
  return { ...state, waiting: [...state.waiting, message] };
}

function withoutSaid(waiting, entries) {
  const said = new Set(entries.map((one) => one.message_id));
  return waiting.filter((one) => !said.has(one.id));
}

function grown(live, event) {
  switch (event.type) {
    case "text":
      return { ...live, text: live.text + event.text, thinking: false };
    case "reasoning":
      return { ...live, thinking: true };
    case "tool":
      return { ...live, tools: withStep(live.tools, event), thinking: false };
    default:
      return { ...live, notes: [...live.notes, event], thinking: false };
  }
}

function withStep(tools, event) {
  const before = tools.find((one) => one.id === event.id);
  if (!before) return [...tools, event];
  const step = { ...before, status: event.status };
  for (const field of ["title", "input", "output"]) step[field] = event[field] || before[field];
  return tools.map((one) => (one === before ? step : one));
}
