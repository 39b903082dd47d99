// On every page of the site. A page that says how things are now says so, too, when that was long ago: nobody may have built it since.
"use strict";
(() => {
  const hour = 3600e3;
  for (const card of document.querySelectorAll(".card[data-started]")) {
    const age = (Date.now() - Date.parse(card.dataset.started)) / hour;
    if (age > Number(card.dataset.hours)) {
      const line = card.querySelector(".stale");
      const text = age < 72 ? `${Math.round(age)} hours` : `${Math.floor(age / 24)} days`;
      line.textContent = `Not measured since: the last session is ${text} old, or this page was not written again.`;
      line.hidden = false;
      card.classList.add("old");
    }
  }
  const named = () => {
    try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; } // somebody cut the address short
  };
  const open = () => {
    const found = document.getElementById(named());
    for (let one = found; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    if (found) found.scrollIntoView();
  };
  addEventListener("hashchange", open);
  // What is folded away is printed, too.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => {
    if (!one.open) { one.open = true; one.dataset.folded = "yes"; }
  }));
  addEventListener("afterprint", () => document.querySelectorAll("details[data-folded]").forEach((one) => {
    one.open = false; delete one.dataset.folded;
  }));
  open();
  const drawn = window.mpibenchDraw ? window.mpibenchDraw() : Promise.resolve();
  Promise.resolve(drawn).then(() => { document.documentElement.dataset.ready = "yes"; });
})();
