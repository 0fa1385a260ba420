// Markdown into elements, token by token. There is no HTML text anywhere on the way, so there is none to break out of:
// whatever a message holds ends as text in an element that is named here.
import MarkdownIt from "../vendor/markdown-it.esm.min.mjs";
import { Component, html } from "./html.js";
import { CodeBlock, withVisibleBidi } from "./code.js";

const parser = new MarkdownIt({ html: false, linkify: true, breaks: true });
// Past this a browser would stand still; the words are shown as they are.
const LONGEST_MARKDOWN = 200_000;
const SAFE_LINK = /^(https?:\/\/|mailto:)/i;
const HEADINGS = { h1: "h3", h2: "h4", h3: "h5", h4: "h6", h5: "h6", h6: "h6" };

export class Markdown extends Component {
  shouldComponentUpdate(next) {
    return next.text !== this.props.text;
  }

  render({ text }) {
    if (text.length > LONGEST_MARKDOWN) return html`<${CodeBlock} code=${text} language="long text, not formatted" />`;
    return html`<div class="md" dir="auto">${elements(parser.parse(text, {}))}</div>`;
  }
}

function elements(tokens) {
  const stack = [{ children: [] }];
  for (const token of tokens) {
    if (token.nesting === 1) {
      stack.push({ token, children: [] });
    } else if (token.nesting === -1) {
      const { token: opening, children } = stack.pop();
      stack.at(-1).children.push(element(opening, children));
    } else {
      stack.at(-1).children.push(leaf(token));
    }
  }
  return stack[0].children;
}

function element(token, children) {
  if (token.hidden) return children;
  switch (token.type) {
    case "paragraph_open":
      return html`<p dir="auto">${children}</p>`;
    case "bullet_list_open":
      return html`<ul>${children}</ul>`;
    case "ordered_list_open":
      return html`<ol start=${token.attrGet("start") ?? 1}>${children}</ol>`;
    case "list_item_open":
      return html`<li dir="auto">${children}</li>`;
    case "blockquote_open":
      return html`<blockquote>${children}</blockquote>`;
    case "heading_open":
      return html`<${HEADINGS[token.tag]} class=${`heading-${token.tag}`} dir="auto">${children}<//>`;
    case "table_open":
      return html`<div class="table" tabindex="0" role="region" aria-label="Table"><table>${children}</table></div>`;
    case "thead_open":
      return html`<thead>${children}</thead>`;
    case "tbody_open":
      return html`<tbody>${children}</tbody>`;
    case "tr_open":
      return html`<tr>${children}</tr>`;
    case "th_open":
      return html`<th dir="auto" class=${alignment(token)}>${children}</th>`;
    case "td_open":
      return html`<td dir="auto" class=${alignment(token)}>${children}</td>`;
    case "strong_open":
      return html`<strong>${children}</strong>`;
    case "em_open":
      return html`<em>${children}</em>`;
    case "s_open":
      return html`<s>${children}</s>`;
    case "link_open":
      return link(token.attrGet("href"), children);
    default:
      return html`<span>${children}</span>`;
  }
}

function leaf(token) {
  switch (token.type) {
    case "inline":
      return elements(token.children);
    case "code_inline":
      return html`<code dir="ltr">${withVisibleBidi(token.content)}</code>`;
    case "fence":
    case "code_block":
      return html`<${CodeBlock} code=${token.content} language=${token.info.trim().split(/\s+/)[0]} />`;
    case "softbreak":
    case "hardbreak":
      return html`<br />`;
    case "hr":
      return html`<hr />`;
    case "image":
      // Nothing is loaded from elsewhere: who sees the picture would tell its owner that the message was read.
      return link(token.attrGet("src"), [token.content || "image"]);
    default:
      return token.content;
  }
}

function link(href, children) {
  if (!SAFE_LINK.test(href ?? "")) return html`<bdi>${children}</bdi>`;
  return html`<a href=${href} title=${href} target="_blank" rel="noopener noreferrer nofollow"><bdi>${children}</bdi></a>`;
}

function alignment(token) {
  return /text-align:(right|center)/.exec(token.attrGet("style") ?? "")?.[1] ?? "";
}
