// The few signs of the page, drawn as lines in the colour of the text.
import { html } from "./html.js";

const icon = (...paths) => html`
  <svg class="icon" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true" fill="none" stroke="currentColor"
    stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round">
    ${paths.map((path) => html`<path d=${path} />`)}
  </svg>`;

export const icons = {
  menu: () => icon("M3 6h14", "M3 10h14", "M3 14h14"),
  plus: () => icon("M10 4v12", "M4 10h12"),
  more: () => icon("M5 10h.01", "M10 10h.01", "M15 10h.01"),
  send: () => icon("M10 16V4.500", "M5 9l5-5 5 5"),
  stop: () => icon("M6.500 6.500h7v7h-7z"),
  down: () => icon("M10 4v11.500", "M5 11l5 5 5-5"),
  sun: () => icon("M10 6.500a3.500 3.500 0 1 0 0 7 3.500 3.500 0 0 0 0-7z", "M10 2v1.500M10 16.500V18M2 10h1.500M16.500 10H18M4.300 4.300l1.100 1.100M14.600 14.600l1.100 1.100M4.300 15.700l1.100-1.100M14.600 5.400l1.100-1.100"),
  moon: () => icon("M16.500 12.300A7 7 0 0 1 7.700 3.500a7 7 0 1 0 8.800 8.800z"),
  check: () => icon("M4.500 10.500l3.500 3.500 7.500-8"),
  cross: () => icon("M5.500 5.500l9 9", "M14.500 5.500l-9 9"),
  copy: () => icon("M7.500 7.500h8v8.500h-8z", "M12.500 7.500V4h-8v8.500h3"),
  chevron: () => icon("M7.500 5.500l4.500 4.500-4.500 4.500"),
  close: () => icon("M5 5l10 10", "M15 5L5 15"),
};
