// Keyboard, countdowns, and what keeps a hand from deciding by mistake. Every page works without it, except that it is
// less forgiving: nothing here grants anything.
"use strict";

const root = document.body.dataset.root;
const settleMilliseconds = 400; // a button that has just appeared under the hand does not answer yet
const lostMilliseconds = 8000;
const listenMilliseconds = 5000;
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

function closeAnswers(card, why) {
  // Nothing of it can be decided any more: the forms go, and the words stand where they were.
  for (const answers of findAll(".decide", card)) {
    answers.replaceChildren();
    const words = document.createElement("p");
    words.className = "conflict";
    words.textContent = why;
    answers.append(words);
  }
}

// ---------------------------------------------------------------- whether the page still hears anything

// Since when the server has not been heard, null while it is. A page that has only begun has heard nothing yet, and a
// stream that begins anew takes a moment.
let lostAt = window.htmx ? new Date() : null;

function isLost() {
  return lostAt !== null && Date.now() - lostAt >= lostMilliseconds;
}

function tellConnection() {
  const place = find("#lost");
  if (place.hidden !== isLost()) return;
  place.hidden = !isLost();
  place.textContent = isLost()
    ? `Not connected since ${lostAt.toLocaleTimeString()}. What stands here may be old, and nothing can be decided.`
    : "";
  say(isLost() ? "Not connected. What stands here may be old." : "Connected again.");
  for (const form of findAll("form[data-settles]")) allow(form);
}

// ---------------------------------------------------------------- what ends while it is read

function expire(place) {
  closeAnswers(place.closest(".card"), "It expired, by the store’s clock. Whoever asked has to ask anew.");
  say("It expired.");
}

function standsOtherwise(standing) {
  // An open page heard what became of its call.
  const card = standing.closest(".card");
  find("#done")?.remove(); // what was said on arrival is not all that is true any more
  if (standing.dataset.state !== "pending" && find(".decide form", card)) {
    closeAnswers(card, "It cannot be decided here any more: see above.");
  }
  const { state } = standing.dataset;
  if (state !== "pending") find("details.edit", card)?.remove();
  if (state !== "pending" && state !== "approved") for (const form of findAll("form.withdraw", card)) form.remove();
  const back = find("[data-back]", card);
  if (back && state === "approved") back.textContent = back.dataset.back;
  tick();
  say(find(".state", standing).textContent.replace(/\s+/g, " ").trim());
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
  // Whether the form may be sent now; its button says the same.
  const button = find("button", form);
  const isSettled = performance.now() - Number(form.dataset.shown) >= settleMilliseconds;
  const words = form.dataset.approve === undefined ? "" : whyNotYet(form);
  button.disabled = words !== "" || !isSettled || isLost() || form.dataset.sent !== undefined;
  const why = find("[data-why-not]", form);
  if (why) { why.textContent = words; why.hidden = !words; }
  return !button.disabled;
}

function whyNotYet(form) {
  const unread = findAll("details[data-must-open]:not([data-was-open])", form.closest(".card")).length;
  if (unread) {
    return `Open ${unread === 1 ? "the folded value" : `the ${unread} folded values`} first: what you approve is all of it.`;
  }
  const typed = find("[data-typed]", form);
  return !typed || typed.value === typed.dataset.typed ? "" : "Type the name first.";
}

function prepare(within) {
  fold(within);
  for (const form of findAll("form[data-once]", within)) {
    form.dataset.shown = performance.now();
    form.addEventListener("submit", (event) => {
      // No way of sending it, a key or a script, may do what the button would not.
      if (form.dataset.sent !== undefined || (form.dataset.settles !== undefined && !allow(form))) {
        event.preventDefault();
        if (form.dataset.approve !== undefined) say(whyNotYet(form));
        return;
      }
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
let peeked = null; // the link whose row is wanted beside the list; null for none
const rows = () => findAll("tr[data-row]");
const openLink = (row) => row && find("a.open", row);

function choose(index) {
  const all = rows();
  if (!all.length) return;
  const row = all[Math.max(0, Math.min(index, all.length - 1))];
  mark(row);
  (openLink(row) ?? row).focus();
  row.scrollIntoView({ block: "nearest" });
}

function mark(row) {
  const all = rows();
  chosen = all.indexOf(row);
  for (const each of all) each.classList.toggle("chosen", each === row);
  if (peeked && peeked !== openLink(row)) peek();
}

function peek() {
  const link = rows()[chosen] && find("a.open[hx-get]", rows()[chosen]);
  if (!link) return;
  peeked = link;
  const ask = () => { if (peeked === link) htmx.trigger(link, "peek"); };
  // htmx makes the page's links its own in a task of its own, after this script: who is quicker than that waits for it.
  if (link._htmx?.initialized) ask();
  else link.addEventListener("htmx:after:init", ask, { once: true });
}

function closePeek() {
  if (!peeked) return;
  peeked = null; // an answer that is still under way opens nothing any more
  find("#peek").replaceChildren();
  openLink(rows()[chosen])?.focus();
}

document.addEventListener("focusin", (event) => {
  const row = event.target.closest?.("tr[data-row]");
  if (row) mark(row);
});

// ---------------------------------------------------------------- keys

const keysStored = "placet-keys";
let keysOn = true;
try { keysOn = localStorage.getItem(keysStored) !== "off"; } catch { /* a browser that stores nothing */ }

function isTyping(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
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

const places = { i: "/", e: "/effects", r: "/runs", a: "/audit", t: "/grants", s: "/stops" };
const keys = {
  j: () => choose(chosen + 1),
  k: () => choose(chosen - 1),
  o: () => openLink(rows()[chosen])?.click(),
  p: () => { if (chosen < 0) choose(0); peek(); },
  x: () => { const row = rows()[chosen]; if (row) find("input[type=checkbox]", row)?.click(); },
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

let goes = false; // `g` was pressed: the next key, whenever it comes, says where to
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
    const form = event.target.closest?.("form");
    if (form && event.target.tagName === "TEXTAREA") form.requestSubmit();
    return;
  }
  if (["Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
  if (event.key === "Escape" && !find("dialog[open]")) { goes = false; closePeek(); return; }
  if (!keysOn || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || find("dialog[open]")) return;
  if (goes) {
    goes = false;
    if (places[event.key]) { event.preventDefault(); location.assign(root + places[event.key]); }
    return;
  }
  if (event.key === "g") { goes = true; return; }
  const act = keys[event.key];
  if (act) { event.preventDefault(); act(); }
});

// ---------------------------------------------------------------- the page

prepare(document);
tick();
setInterval(tick, 1000);
const stream = find("[data-live]");
let isListening = false;
let isAsking = false;
let hasAsked = false;
stream.addEventListener("htmx:before:request", () => { isAsking = true; hasAsked = true; });
for (const ended of ["htmx:sse:error", "htmx:sse:close"]) stream.addEventListener(ended, () => { lostAt ??= new Date(); });
stream.addEventListener("htmx:sse:close", () => { isListening = false; });
stream.addEventListener("htmx:sse:after:connection", () => { isListening = true; lostAt = null; tellConnection(); });
stream.addEventListener("htmx:finally:request", (event) => {
  isAsking = false;
  // A stream that has begun tries again by itself; one that could not even begin has to be asked for anew.
  if (isListening) return;
  const { response, text } = event.detail.ctx;
  if (response && (response.status < 500 || text?.trim() === "too_many_waiting")) lostAt = null; // no stream, but an answer
  else lostAt ??= new Date();
});
function listen() {
  if (isListening || isAsking || !window.htmx) return;
  // htmx may have begun before the part that listens was there: then nobody has asked yet, and by now it has begun.
  if (hasAsked) htmx.trigger(stream, "listen"); else htmx.process(stream);
}
setInterval(listen, listenMilliseconds);
setInterval(tellConnection, 1000);
find("#help-button").addEventListener("click", () => find("#help").showModal());
const keysBox = find("#keys-on");
keysBox.checked = keysOn;
keysBox.addEventListener("change", () => {
  keysOn = keysBox.checked;
  try { localStorage.setItem(keysStored, keysOn ? "on" : "off"); } catch { /* for this page, then */ }
});
if (find("#done")) say(find("#done").textContent);
document.body.addEventListener("htmx:before:swap", (event) => {
  const { target, sourceElement } = event.detail.ctx;
  if (target?.id === "peek" && sourceElement !== peeked) event.preventDefault(); // somebody has moved on since
});
document.body.addEventListener("htmx:after:swap", (event) => {
  const target = event.detail?.ctx?.target ?? event.target;
  switch (target?.id) {
    case "peek": prepare(target); tick(); break;
    case "standing": if (event.detail.ctx.text) standsOtherwise(find("#standing")); break; // none: as it was
    case "news": if (find(".news")) sayArrival(find(".news").textContent); break;
  }
});
document.body.addEventListener("signed-out", () => location.assign(`${root}/sign-in`));
