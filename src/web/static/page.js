// What every page but a conversation has: a heading, what went wrong, and links that stay in the page.
import { html } from "./dom.js";
import { go } from "./app.js";

/** Follow a link in the page, unless it is meant for another tab. */
export function follow(event, address) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(address);
}
export const Link = ({ to, children, ...rest }) => html`<a href=${to} onClick=${(event) => follow(event, to)} ...${rest}>${children}</a>`;

export function Page({ title, said, loading, children, ...rest }) {
  return html`<section class="page" ...${rest}><div class="inner"><h1>${title}</h1>
    ${said ? html`<p class="warn" role="alert">${said}</p>` : null}${loading && !said ? html`<p class="quiet">…</p>` : null}${children}</div></section>`;
}

/** A row of buttons of which one holds. */
export const Choice = ({ label, options, value, choose }) => html`<span role="group" aria-label=${label} class="row">${options.map(([name, text]) =>
  html`<button type="button" key=${name} aria-pressed=${value === name ? "true" : "false"} onClick=${() => choose(name)}>${text}</button>`)}</span>`;
