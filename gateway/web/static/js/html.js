// One place that ties the template syntax to the renderer.
import { Component, h, render } from "../vendor/preact.mjs";
import htm from "../vendor/htm.mjs";

export const html = htm.bind(h);
export { Component, render };
