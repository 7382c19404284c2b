// The one place where the view's libraries come from.
import { h, render, Component, Fragment, createRef } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useRef, useState, useMemo } from "./vendor/hooks.js";
import { signal, computed, effect, batch } from "./vendor/signals-core.js";
import "./vendor/signals.js"; // components that read a signal are drawn again when it changes
import htm from "./vendor/htm.js";

const html = htm.bind(h);
export {
  h, html, render, Component, Fragment, createRef, useEffect, useLayoutEffect, useRef, useState,
  useMemo, signal, computed, effect, batch,
};
