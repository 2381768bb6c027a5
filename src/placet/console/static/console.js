// Keyboard, countdowns, and what keeps a hand from deciding by mistake. Every page works without it, except that it is
// less forgiving: nothing here grants anything.
"use strict";

const root = document.body.dataset.root;
const settleMilliseconds = 400; // a button that has just appeared under the hand does not answer yet
const announced = [300, 60]; // seconds left at which a countdown is said aloud
const find = (selector, within = document) => within.querySelector(selector);
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

// ---------------------------------------------------------------- said aloud

function say(text) {
  const place = document.getElementById("said");
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = text; });
}

let lastArrivalSaid = 0;
function sayArrival(text) {
  const now = Date.now();
  if (now - lastArrivalSaid < 10000) return;
  lastArrivalSaid = now;
  say(text);
}

// ---------------------------------------------------------------- countdowns

const began = performance.now();
const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function lengthWords(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const index = Math.max(0, units.findIndex(([size]) => whole >= size));
  const [size, unit] = whole ? units[index] : units[3];
  const below = units[index + 1];
  const rest = whole && below ? Math.floor((whole % size) / below[0]) : 0;
  return rest ? `${Math.floor(whole / size)} ${unit} ${rest} ${below[1]}` : `${Math.floor(whole / size)} ${unit}`;
}

function tick() {
  for (const place of findAll(".countdown")) {
    place.dataset.began ??= performance.now();
    const left = Number(place.dataset.seconds) - (performance.now() - Number(place.dataset.began)) / 1000;
    const before = Number(place.dataset.left ?? Infinity);
    place.dataset.left = left;
    place.textContent = left > 0 ? lengthWords(left) : "over";
    place.classList.toggle("soon", left <= 300);
    if (!place.closest(".card")) continue;
    const said = announced.find((seconds) => left <= seconds && before > seconds && before !== Infinity);
    if (said) say(`${lengthWords(said)} left for ${place.dataset.what}.`);
    if (left <= 0 && before > 0) expire(place);
  }
}

function expire(place) {
  const card = place.closest(".card");
  for (const answers of findAll(".decide", card)) {
    answers.replaceChildren();
    const words = document.createElement("p");
    words.className = "conflict";
    words.textContent = "It expired, by the store’s clock. Whoever asked has to ask anew.";
    answers.append(words);
  }
  say("It expired.");
}

// ---------------------------------------------------------------- deciding

function fold(within) {
  // Without this script long values stand open. With it they are folded, and each has to be opened before Approve.
  for (const folded of findAll("details[data-fold]", within)) folded.open = false;
  for (const folded of findAll("details[data-must-open]", within)) {
    folded.open = false;
    folded.addEventListener("toggle", () => {
      if (folded.open) folded.dataset.wasOpen = "";
      for (const form of findAll("form[data-approve]")) allow(form);
    });
  }
}

function allow(form) {
  const button = find("button", form);
  const isSettled = performance.now() - Number(form.dataset.shown) >= settleMilliseconds;
  if (form.dataset.approve === undefined) {
    button.disabled = !isSettled || form.dataset.sent !== undefined;
    return;
  }
  const card = form.closest(".card");
  const unread = findAll("details[data-must-open]:not([data-was-open])", card).length;
  const typed = find("[data-typed]", form);
  const isTyped = !typed || typed.value === typed.dataset.typed;
  button.disabled = unread > 0 || !isTyped || !isSettled || form.dataset.sent !== undefined;
  const why = find("[data-why-not]", form);
  const words = unread
    ? `Open ${unread === 1 ? "the folded value" : `the ${unread} folded values`} first: what you approve is all of it.`
    : isTyped ? "" : "Type the name first.";
  why.textContent = words;
  why.hidden = !words;
}

function prepare(within) {
  fold(within);
  for (const form of findAll("form[data-once]", within)) {
    form.dataset.shown = performance.now();
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent !== undefined) { event.preventDefault(); return; }
      form.dataset.sent = "";
      for (const other of findAll("form[data-once] button")) other.disabled = true;
    });
    if (form.dataset.settles === undefined) continue;
    form.addEventListener("input", () => allow(form));
    allow(form);
    setTimeout(() => allow(form), settleMilliseconds + 20);
  }
}

addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of findAll("form[data-once]")) {
    delete form.dataset.sent;
    for (const button of findAll("button", form)) button.disabled = false;
    if (form.dataset.settles !== undefined) allow(form);
  }
});

// ---------------------------------------------------------------- rows

let chosen = -1;
const rows = () => findAll("tr[data-row]");

function choose(index) {
  const all = rows();
  if (!all.length) return;
  chosen = Math.max(0, Math.min(index, all.length - 1));
  for (const [each, row] of all.entries()) row.classList.toggle("chosen", each === chosen);
  const link = find("a.open", all[chosen]);
  (link ?? all[chosen]).focus();
  all[chosen].scrollIntoView({ block: "nearest" });
  if (find("#peek")?.childElementCount) peek();
}

function peek() {
  const link = rows()[chosen] && find("a.open[hx-get]", rows()[chosen]);
  if (link) htmx.trigger(link, "peek");
}

function closePeek() {
  const place = find("#peek");
  if (!place?.childElementCount) return false;
  place.replaceChildren();
  if (chosen >= 0) find("a.open", rows()[chosen])?.focus();
  return true;
}

document.addEventListener("focusin", (event) => {
  const row = event.target.closest?.("tr[data-row]");
  if (row) chosen = rows().indexOf(row);
});

// ---------------------------------------------------------------- keys

const keysStored = "placet-keys";
let keysOn = true;
try { keysOn = localStorage.getItem(keysStored) !== "off"; } catch { /* a browser that stores nothing */ }

function isTyping(target) {
  return target.closest("input, textarea, select, [contenteditable]") !== null;
}

function moveTab(step) {
  const tabs = findAll(".tabs a");
  const here = tabs.findIndex((tab) => tab.getAttribute("aria-current"));
  if (tabs.length && here >= 0) tabs[(here + step + tabs.length) % tabs.length].click();
}

function nextUnknown() {
  const links = findAll("a.unknown");
  if (links.length) links[(links.indexOf(document.activeElement) + 1) % links.length].focus();
  else location.assign(`${root}/effects`);
}

function focusOn(selector) {
  const place = find(selector);
  if (place) { place.focus(); place.scrollIntoView({ block: "center" }); }
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    say("Link copied.");
    find("#link-state").textContent = "Link copied.";
  } catch {
    find("#link-state").textContent = "The browser does not let the link be copied.";
  }
}

const places = { i: "/", e: "/effects", r: "/runs", a: "/audit", s: "/stops" };
const keys = {
  j: () => choose(chosen + 1),
  k: () => choose(chosen - 1),
  o: () => { const link = rows()[chosen] && find("a.open", rows()[chosen]); link?.click(); },
  p: () => { if (chosen < 0) choose(0); peek(); },
  a: () => focusOn(".approve [data-typed], .approve button"),
  d: () => focusOn(".deny textarea"),
  e: () => { const edit = find("details.edit"); if (edit) { edit.open = true; focusOn("details.edit textarea"); } },
  r: () => location.reload(),
  "/": () => focusOn("#q, .search input"),
  "[": () => moveTab(-1),
  "]": () => moveTab(1),
  ".": nextUnknown,
  c: copyLink,
  "?": () => find("#help").showModal(),
};

let goes = false;
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
    const form = event.target.closest?.("form");
    if (form && event.target.tagName === "TEXTAREA") form.requestSubmit();
    return;
  }
  if (event.key === "Escape" && !find("dialog[open]")) { closePeek(); return; }
  if (!keysOn || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || find("dialog[open]")) return;
  if (goes) {
    goes = false;
    if (places[event.key]) { event.preventDefault(); location.assign(root + places[event.key]); }
    return;
  }
  if (event.key === "g") { goes = true; setTimeout(() => { goes = false; }, 1500); return; }
  const act = keys[event.key];
  if (act) { event.preventDefault(); act(); }
});

// ---------------------------------------------------------------- the page

prepare(document);
tick();
setInterval(tick, 1000);
find("#help-button").addEventListener("click", () => find("#help").showModal());
const keysBox = find("#keys-on");
keysBox.checked = keysOn;
keysBox.addEventListener("change", () => {
  keysOn = keysBox.checked;
  try { localStorage.setItem(keysStored, keysOn ? "on" : "off"); } catch { /* for this page, then */ }
});
if (find("#done")) say(find("#done").textContent);
document.body.addEventListener("htmx:after:swap", (event) => {
  const place = find("#peek");
  const target = event.detail?.ctx?.target ?? event.target;
  if (target === place) { prepare(place); tick(); return; }
  const news = find(".news");
  if (news) sayArrival(news.textContent);
});
document.body.addEventListener("signed-out", () => location.assign(`${root}/sign-in`));
