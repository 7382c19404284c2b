// Formulas as MathML: the typesetter's tree as elements, with nothing in it that could load or run.
import { h, html } from "./dom.js";
import temml from "./vendor/temml.js";

const ELEMENTS = new Set("math mrow mi mn mo ms mspace mtext mfrac msqrt mroot mstyle mpadded mphantom menclose msub msup msubsup munder mover munderover mmultiscripts mprescripts mtable mtr mtd none semantics".split(" "));
const ATTRIBUTES = new Set("display mathvariant stretchy fence separator lspace rspace symmetric largeop movablelimits form minsize maxsize linethickness scriptlevel displaystyle width height depth voffset columnalign rowalign columnspacing rowspacing accent accentunder notation dir".split(" "));

function drawn(node) {
  if (node == null) return null;
  if (node.text !== undefined && !node.children) return node.text;
  const children = (node.children || []).map(drawn);
  if (!ELEMENTS.has(node.type)) return children;
  const attributes = {};
  for (const [name, value] of Object.entries(node.attributes || {})) if (ATTRIBUTES.has(name)) attributes[name] = value;
  return h(node.type, attributes, children);
}

export function typeset(text, display) {
  try {
    const tree = temml.__renderToMathMLTree(text, { displayMode: display, trust: false, maxExpand: 200, maxSize: [10, 40], throwOnError: true });
    const made = drawn(tree);
    return display ? html`<div class="formula" tabindex="0" role="region" aria-label="Formula">${made}</div>` : made;
  } catch { return html`<code>${text}</code>`; }
}
