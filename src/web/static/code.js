// Colours for code: comments, strings, numbers and words, by what is known of each language.
//
// One pass by one pattern for each language. Whatever begins is taken to its end or to the end of the
// text, so that nothing is read twice, whatever somebody writes.
import { html } from "./dom.js";

const raw = String.raw;
const HASH = raw`#.*`, SLASHES = raw`\/\/.*`, STARS = raw`\/\*[^]*?(?:\*\/|(?![^]))`, DASHES = raw`--.*`;
const DOUBLE = raw`"(?:[^"\\\n]|\\[^])*"?`, SINGLE = raw`'(?:[^'\\\n]|\\[^])*'?`, TICKS = raw`\x60(?:[^\x60\\]|\\[^])*\x60?`;
const TRIPLE = raw`"""[^]*?(?:"""|(?![^]))|'''[^]*?(?:'''|(?![^]))`, QUOTED = raw`'(?:[^'\n]|'')*'?`;
const CHARACTER = raw`'(?:\\.[^'\n]{0,8}|[^'\\\n])'`; // not the name of a lifetime, or a digit's mark
const NUMBER = raw`(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z%\d]*`;
const WORD = raw`[\p{L}_$][\p{L}\p{N}_$]*`;
const LITERALS = " true false null nil none None True False undefined NULL TRUE FALSE NaN Infinity iota self this super nullptr ";
/** After these comes the name of what they make. */
const MAKERS = " def class fn func function struct enum trait interface fun type impl record object protocol mod module namespace package ";

/** A language: its kinds of things with their patterns, tried in this order; `words` are its keywords. */
const language = (words, ...kinds) => ({ words: " " + words + " ", kinds: [...kinds, ["number", NUMBER], ["word", WORD]] });
const braces = (words, ...kinds) => language(words, ["comment", SLASHES + "|" + STARS], ...kinds, ["string", DOUBLE]);
const C = "if else for while do switch case default break continue return static const void char short int long float double unsigned signed struct union enum typedef sizeof extern inline volatile goto ";
const OBJECTS = "class public private protected new try catch throw finally abstract final interface extends implements import package this super instanceof boolean byte ";
const SCRIPT = "if else for while do switch case default break continue return function const let var class extends new delete typeof instanceof in of try catch throw finally import export from async await yield static get set void with debugger interface type enum implements private public protected readonly namespace declare as keyof number string boolean any unknown never abstract satisfies ";
const PYTHON = "and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield match case print len range str int float bool list dict set tuple open isinstance enumerate zip map filter sorted sum min max any all super type object ";
const SHELL = "if then else elif fi for while until do done case esac in function return exit export local readonly declare set unset shift source alias echo cd test read eval exec trap sudo ";
const RUST = "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return static struct trait type unsafe use where while bool char str u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 ";
const GO = "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var bool byte error int int8 int16 int32 int64 uint uint8 uint32 uint64 float32 float64 string rune any make len cap append new panic recover close copy delete ";
const SQL = "select from where and or not in is as on join left right inner outer full cross group by order having limit offset insert into values update set delete create table index view drop alter add column primary key foreign references unique default check constraint null exists between like case when then else end union all distinct with recursive begin commit rollback transaction integer text varchar char real numeric boolean date timestamp timestamptz jsonb bigint serial if replace trigger grant returning using asc desc count sum avg min max coalesce cast ";
const RUBY = "alias and begin break case class def defined? do else elsif end ensure for if in module next not or redo rescue retry return then undef unless until when while yield require include extend attr_accessor attr_reader puts raise lambda proc ";
const PHP = "abstract and array as break case catch class clone const continue declare default do echo else elseif extends final finally fn for foreach function global if implements include instanceof interface isset match namespace new or print private protected public readonly require return static switch throw trait try unset use var while yield string int float bool void mixed ";
const KOTLIN = "as break class continue do else for fun if in interface is object package return throw try typealias val var when while by catch constructor finally get import init set where abstract companion data enum final inline internal lateinit open operator override private protected public sealed suspend vararg ";
const SWIFT = "associatedtype class deinit enum extension func import init inout let operator protocol static struct subscript typealias var break case continue default defer do else fallthrough for guard if in repeat return switch where while as catch is rethrows throw throws try async await private public internal fileprivate open override mutating lazy weak some any ";
const SHARP = C + OBJECTS + "using namespace string bool decimal object var foreach in is as out ref async await virtual override readonly sealed partial get set record where yield lock params delegate event nameof ";
const LUA = "and break do else elseif end for function goto if in local not or repeat return then until while require print pairs ipairs ";

const KEYED = [["comment", HASH], ["string", DOUBLE + "|" + QUOTED]];
const TAG = language("", ["tag", raw`^<\/?[\w:.-]+|\/?>$`], ["attr", raw`(?<![\w:@.-])[\w:@.-]+(?=\s{0,20}=)`], ["string", raw`"[^"]*"?|'[^']*'?`]);
const LANGUAGES = {
  __proto__: null,
  bash: language(SHELL, ["comment", raw`(?<![\w$\\{])#.*`], ["string", raw`"(?:[^"\\]|\\[^])*"?|'[^']*'?`], ["variable", raw`\$(?:\w+|\{[^}\n]*\}?|[@#?*!$-])`], ["attr", raw`(?<=\s)--?[a-zA-Z][\w-]*`]),
  cpp: braces(C + OBJECTS + "namespace template typename using virtual override auto bool constexpr nullptr delete operator friend explicit noexcept mutable wchar_t size_t std ", ["meta", raw`(?<![^\n])[ \t]*#[ \t]*\w+`], ["string", CHARACTER]),
  csharp: braces(SHARP, ["string", CHARACTER]), css: language("important", ["comment", STARS], ["string", DOUBLE + "|" + SINGLE], ["keyword", raw`@[\w-]+`], ["number", raw`#[\da-fA-F]{3,8}\b`], ["attr", raw`(?<![\w-])[\w-]+(?=\s{0,20}:)`], ["title", raw`[.#][\w-]+`]),
  diff: { words: "", kinds: [["meta", raw`(?<![^\n])(?:@@|diff |index |---|\+\+\+).*`], ["addition", raw`(?<![^\n])\+.*`], ["deletion", raw`(?<![^\n])-.*`]] },
  go: braces(GO, ["string", TICKS], ["string", CHARACTER]), java: braces(C + OBJECTS + "throws synchronized transient native var record sealed permits String ", ["meta", raw`@\w+`], ["string", CHARACTER]),
  ini: language("", ["comment", raw`(?<![^\n])[ \t]*[;#].*|#.*`], ["section", raw`(?<![^\n])\[[^\n]*\]`], ["attr", raw`(?<![^\n])[ \t]*[\w."-]+(?=[ \t]{0,40}=)`], ["string", TRIPLE + "|" + DOUBLE + "|" + SINGLE]),
  javascript: braces(SCRIPT, ["string", TICKS + "|" + SINGLE], ["meta", raw`@\w+`], ["regexp", raw`(?<=[=(,:;!&|?{}\n][ \t]{0,8})\/(?![*\/])(?:[^\/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\]?)+\/?[a-z]*`]),
  json: language("", ["attr", raw`"(?:[^"\\\n]|\\[^])*"(?=\s{0,20}:)`], ["string", DOUBLE], ["comment", SLASHES + "|" + STARS]), kotlin: braces(KOTLIN, ["string", CHARACTER], ["meta", raw`@\w+`]),
  lua: language(LUA, ["comment", raw`--\[\[[^]*?(?:\]\]|(?![^]))|` + DASHES], ["string", DOUBLE + "|" + SINGLE + raw`|\[\[[^]*?(?:\]\]|(?![^]))`]),
  markdown: { words: "", kinds: [["section", raw`(?<![^\n])#{1,6} .*`], ["quote", raw`(?<![^\n])>.*`], ["string", raw`\x60+[^\x60\n]*\x60*`], ["symbol", raw`(?<![^\n])[ \t]*(?:[-*+]|\d{1,9}[.)])(?= )|!?\[[^\]\n]*\]?(?:\([^)\n]*\))?`], ["keyword", raw`\*\*[^*\n]*\*{0,2}|__[^_\n]*_{0,2}`]] },
  php: braces(PHP, ["comment", HASH], ["string", SINGLE], ["variable", raw`\$\w+`], ["meta", raw`<\?(?:php|=)?|\?>`]),
  python: language(PYTHON, ["comment", HASH], ["string", raw`\b[rbfuRBFU]{0,2}(?:${TRIPLE}|${DOUBLE}|${SINGLE})|` + TRIPLE + "|" + DOUBLE + "|" + SINGLE], ["meta", raw`(?<=(?:^|\n)[ \t]{0,40})@[\w.]+`]),
  ruby: language(RUBY, ["comment", HASH], ["string", DOUBLE + "|" + SINGLE], ["symbol", raw`(?<!:):[a-zA-Z_]\w*|[a-zA-Z_]\w*:(?!:)`], ["variable", raw`@{1,2}\w+`]), rust: braces(RUST, ["string", CHARACTER], ["meta", raw`#!?\[[^\]\n]*\]?`], ["symbol", raw`'\w+`], ["built_in", raw`\w+!(?!=)`]),
  sql: language(SQL, ["comment", DASHES + "|" + STARS], ["string", QUOTED + "|" + DOUBLE]), swift: braces(SWIFT, ["meta", raw`[@#]\w+`]),
  xml: { words: "", kinds: [["comment", raw`<!--[^]*?(?:-->|(?![^]))`], ["meta", raw`<[!?][^>]*>?`], [TAG, raw`<\/?[a-zA-Z][^<>]*>?`], ["symbol", raw`&#?\w{1,32};`]] },
  yaml: language("", ["comment", raw`(?<![^\s])#.*`], ["attr", raw`(?<=(?:^|\n)[ \t-]{0,80})[\w.\/"'-]+(?=[ \t]{0,20}:(?:\s|$))`], ...KEYED.slice(1), ["symbol", raw`[&*][\w-]+(?=\s|$)`], ["string", raw`[|>][+-]?(?=\s*\n)`]),
};
LANGUAGES.sql.ignoreCase = true;
const NAMES = { __proto__: null, js: "javascript", ts: "javascript", tsx: "javascript", jsx: "javascript", mjs: "javascript", typescript: "javascript", c: "cpp", h: "cpp", "c++": "cpp", hpp: "cpp", cs: "csharp", "c#": "csharp", shell: "bash", sh: "bash", zsh: "bash", console: "bash", dockerfile: "bash", makefile: "bash", make: "bash", py: "python", python3: "python", pycon: "python", html: "xml", svg: "xml", vue: "xml", yml: "yaml", toml: "ini", conf: "ini", env: "ini", rs: "rust", golang: "go", md: "markdown", patch: "diff", kt: "kotlin", rb: "ruby", scss: "css", jsonc: "json", json5: "json", postgresql: "sql", sqlite: "sql" };

/** What a word is: of the language, a value, a name that is made or called, a type. */
function kindOf(word, spec, text, end, before) {
  const wanted = " " + (spec.ignoreCase ? word.toLowerCase() : word) + " ";
  if (spec.words.includes(wanted)) return "keyword";
  if (LITERALS.includes(wanted)) return "literal";
  if (MAKERS.includes(" " + before + " ") || text[end] === "(") return "title";
  return spec.words !== "  " && /^\p{Lu}/u.test(word) ? "type" : "";
}

/** The parts of a text: each its kind and its words; kind "" is not coloured. */
export function parts(text, spec) {
  spec.pattern ??= new RegExp(spec.kinds.map(([, pattern]) => "(" + pattern + ")").join("|"), "gu");
  const found = [];
  let at = 0, before = "";
  for (const match of text.matchAll(spec.pattern)) {
    const end = match.index + match[0].length;
    if (end === match.index) continue;
    let kind = spec.kinds[match.indexOf(match[0], 1) - 1][0];
    if (kind === "word") { kind = kindOf(match[0], spec, text, end, before); before = match[0]; } else before = "";
    if (!kind) continue;
    if (match.index > at) found.push(["", text.slice(at, match.index)]);
    if (kind.kinds) found.push(...parts(match[0], kind)); else found.push([kind, match[0]]);
    at = end;
  }
  if (at < text.length) found.push(["", text.slice(at)]);
  return found;
}

/** The language that a fence names; undefined if it is not known. */
export const languageOf = (name) => LANGUAGES[NAMES[name.toLowerCase()] || name.toLowerCase()];

const known = new Map();
export function colour(text, lang) {
  const spec = languageOf(lang);
  if (!spec) return text;
  const key = lang + "\0" + text;
  if (!known.has(key)) {
    if (known.size > 200) known.clear();
    known.set(key, parts(text, spec).map(([kind, words]) => (kind ? html`<span class=${"c-" + kind}>${words}</span>` : words)));
  }
  return known.get(key);
}
