// Times as people say them, in the reader's own zone and language.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const dayOfAYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });
const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

export const timeOfDay = (at) => clock.format(new Date(at));
export const inFull = (at) => full.format(new Date(at));

export function dayOf(at) {
  const then = new Date(at);
  const ago = daysAgo(then);
  if (ago === 0) return "Today";
  if (ago === 1) return "Yesterday";
  return (then.getFullYear() === new Date().getFullYear() ? day : dayOfAYear).format(then);
}

export function briefly(at) {
  const then = new Date(at);
  return daysAgo(then) === 0 ? clock.format(then) : short.format(then);
}

function daysAgo(then) {
  const midnight = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());
  return Math.round((midnight(new Date()) - midnight(then)) / 86_400_000);
}
