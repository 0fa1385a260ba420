// A transcript as the rows of the page: days, messages, and the steps of one answer gathered in one place.
import { dayOf } from "./times.js";

export function rowsOf(entries) {
  const outputs = new Map(entries.filter((one) => one.tool_call_id).map((one) => [one.tool_call_id, one]));
  const calls = new Set(entries.flatMap((one) => one.tool_calls.map((call) => call.id)));
  const rows = [];
  let day = null;
  for (const entry of entries) {
    if (dayOf(entry.at) !== day) {
      day = dayOf(entry.at);
      rows.push({ kind: "day", key: `day-${entry.seq}`, day });
    }
    addSteps(rows, entry, stepsOf(entry, outputs, calls));
    if (entry.role !== "tool" && (entry.text || entry.files.length)) rows.push({ kind: kindOf(entry), key: entry.id, entry });
  }
  return rows;
}

function kindOf({ role, origin }) {
  if (origin === "summary") return "summary";
  if (role === "user") return origin === "command" ? "typed" : "said";
  if (origin === "command") return "output";
  return role === "assistant" && origin === "chat" ? "answer" : "notice";
}

// The transcript keeps what a tool gave back, not whether that was a success; so none is claimed.
function stepsOf(entry, outputs, calls) {
  const steps = entry.tool_calls.map((call) => {
    const result = outputs.get(call.id);
    return { id: `${entry.id}-${call.id}`, name: call.name, status: "ran", input: call.input, output: result?.text };
  });
  if (entry.role === "tool" && !calls.has(entry.tool_call_id)) {
    steps.push({ id: entry.id, name: "Tool", status: "ran", output: entry.text });
  }
  return steps;
}

function addSteps(rows, entry, steps) {
  if (!steps.length) return;
  const before = rows.at(-1);
  if (before?.kind === "steps") before.steps.push(...steps);
  else rows.push({ kind: "steps", key: `steps-${entry.id}`, steps });
}
