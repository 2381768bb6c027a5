// The secret of a one-time link stands behind its "#", which browsers do not send: it goes into the form, and out of
// the address, so that it is in no history. The form is sent by the person, never by opening a link.
"use strict";
const secret = location.hash.slice(1);
if (secret) {
  document.getElementById("link").value = decodeURIComponent(secret);
  history.replaceState(null, "", location.pathname + location.search);
  document.querySelector("form button").focus();
}
