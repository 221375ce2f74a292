// Keeps a page current without reloading it.
//
// The event stream names what changed; the page then fetches those of its parts that can have changed, at most once a
// second, and changes them in place. Nothing is fetched while nothing happens. While the page is hidden, the stream
// is closed: browsers allow few connections to one site; the title and the icon of its tab are then renewed once a
// minute. Without this script, every link and every form works, too.
"use strict";

(() => {
  const body = document.body;
  const kinds = body.dataset.events.split(" ").filter(Boolean);
  const skew = Date.now() / 1000 - Number(body.dataset.now);
  const MOST_HOSTS = 150; // after more changes, the whole map is fetched
  const GATHERING = 250, PAUSE = 1000, AGES = 10000; // milliseconds
  const RETRY = 5000;
  const OUTPUT = 2000, DAY = 86400000;
  const CLICK = 50, PRESSED = 10000; // how long a click may follow its release, and a press may hold the page
  const HIDDEN = 60000, FLEET = ["stop", "publication", "rollout", "host", "instances"];

  const hasFleet = Boolean(document.getElementById("fleet-state")?.dataset.sign);
  const watched = [...new Set([...kinds, ...(hasFleet ? FLEET : [])])];

  let stream = null; // the event stream, or null while the page is hidden
  let behind = false; // whether events may have been missed
  let changed = new Set(); // ids of hosts that changed
  let everything = false; // whether other things changed
  let frame = false; // whether the state of the fleet changed, which the frame of the page shows
  let timer = null;
  let expiry = null;
  let fetching = null;
  let up = null; // settles when no pointer is down
  let fetched = 0; // when the last fetch ended, and how long it took
  let took = 0;

  // ---- Clicks ----

  // A link that moves between the press of a pointer and its release loses the click: parts are replaced after it.
  addEventListener("pointerdown", event => {
    if (event.button) return; // the menu of another button takes the release
    up = new Promise(resolve => {
      const released = () => setTimeout(resolve, CLICK); // the click follows
      for (const kind of ["pointerup", "pointercancel", "blur"]) addEventListener(kind, released, {once: true, capture: true});
      setTimeout(resolve, PRESSED);
    });
  }, true);

  // ---- Fetching the parts that changed ----

  function plan() {
    if (timer || fetching || document.hidden) return;
    const wait = Math.max(GATHERING, fetched + Math.max(PAUSE, 3 * took) - performance.now());
    timer = setTimeout(() => {
      timer = null;
      if (fetching) return; // a view that a person asked for is on its way; its end plans again
      refresh(changed.size || everything ? location.href : frameAddress());
    }, wait);
  }

  // The frame of this page alone: its acts return to this page, and a form has none.
  function frameAddress() {
    return `/frame?page=${encodeURIComponent(location.pathname + location.search)}`;
  }

  async function refresh(address, {whole = false, push = false} = {}) {
    fetching?.abort();
    const own = fetching = new AbortController();
    const hosts = [...changed];
    const framed = address === frameAddress();
    const all = whole || everything || hosts.length > MOST_HOSTS;
    if (!framed) { changed = new Set(); everything = false; }
    frame = false;
    const headers = {"X-Page-Parts": "true"};
    const map = document.getElementById("map");
    if (map && !all) {
      headers["X-Map-Mark"] = map.dataset.mark;
      headers["X-Changed-Hosts"] = hosts.map(encodeURIComponent).join(" ");
    }
    let begun = performance.now();
    let wait = 0;
    try {
      const get = from => fetch(from, {headers, signal: own.signal, cache: "no-store"});
      let response = await get(address);
      if (response.status === 503 && !framed) { // the frame shows why, and how old the page is
        everything = true;
        wait = RETRY;
        response = await get(frameAddress());
      }
      if ([401, 403, 404].includes(response.status) || response.redirected) { // the whole page shows the reason
        if (push) location.assign(address); else location.reload();
        return;
      }
      if (!response.ok) throw new Error(`${response.status}`);
      const text = await response.text();
      const answered = performance.now();
      await up;
      begun += performance.now() - answered;
      own.signal.throwIfAborted();
      if (push && !wait) history.pushState(null, "", address);
      replaceParts(text);
      showState();
      expire();
      renew();
      follow();
      lost(false);
    } catch (error) {
      if (error.name === "AbortError") { // what this fetch was for is still to be fetched
        hosts.forEach(host => changed.add(host));
        everything ||= all && !framed;
        return;
      }
      if (framed) frame = true; else everything = true;
      lost(true);
      wait = RETRY;
    } finally {
      if (fetching === own) fetching = null;
      fetched = performance.now();
      took = fetched - begun;
    }
    if (changed.size || everything || frame) setTimeout(plan, wait);
  }

  // Make the parts of the page equal to those of an answer, with as few changes as possible: what a person has
  // focused, opened or typed stays.
  function replaceParts(text) {
    const focused = document.activeElement;
    for (const part of new DOMParser().parseFromString(text, "text/html").querySelectorAll("[data-renewed]")) {
      const present = document.getElementById(part.id);
      part.removeAttribute("data-renewed");
      if (present) equate(present, part);
    }
    if (focused !== document.activeElement && focused?.isConnected) focused.focus({preventScroll: true});
  }

  function equate(present, wanted) {
    if (present.isEqualNode(wanted)) return;
    if (present.nodeType !== Node.ELEMENT_NODE) {
      present.nodeValue = wanted.nodeValue;
      return;
    }
    for (const {name} of [...present.attributes]) {
      const isOpened = name === "open" && present.nodeName === "DETAILS";
      if (!isOpened && !wanted.hasAttribute(name)) present.removeAttribute(name);
    }
    for (const {name, value} of wanted.attributes) {
      if (present.getAttribute(name) !== value) present.setAttribute(name, value);
    }
    equateChildren(present, wanted);
  }

  // Children with an id stay the same elements wherever they move; all others are paired in their order.
  function equateChildren(present, wanted) {
    const ids = new Set([...wanted.children].map(child => child.id));
    for (const child of [...present.children]) if (child.id && !ids.has(child.id)) child.remove();
    let place = present.firstChild;
    for (const child of [...wanted.childNodes]) {
      let paired = place;
      while (paired && !(paired.nodeName === child.nodeName && (paired.id ?? "") === (child.id ?? ""))) paired = paired.nextSibling;
      if (paired) equate(paired, child);
      if (paired && paired === place) place = place.nextSibling;
      else present.insertBefore(paired ?? document.importNode(child, true), place);
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  }

  // The title and the icon of the tab show the state of the fleet.
  function showState() {
    const state = document.getElementById("fleet-state");
    const title = document.querySelector("main [data-title]") ?? body;
    const words = [state?.dataset.sign, title.dataset.title].filter(Boolean).join(" ");
    document.title = `${words} · ${body.dataset.fleet}`;
    const icon = document.querySelector("link[rel=icon]");
    if (state?.dataset.icon && icon.getAttribute("href") !== state.dataset.icon) icon.href = state.dataset.icon;
  }

  // The title may be a part of the page.
  function refreshState() {
    refresh(document.querySelector("main [data-title]") ? location.href : frameAddress());
  }

  setInterval(() => { if (document.hidden && hasFleet) refreshState(); }, HIDDEN);

  // A silent syncer sends no event: the verdict names the time at which it is no longer true.
  function expire() {
    clearTimeout(expiry);
    const until = Number(document.getElementById("fleet-state")?.dataset.until);
    const left = 1000 * (until + skew) - Date.now();
    if (until) expiry = setTimeout(() => { if (!document.hidden && !fetching) refreshState(); }, Math.min(left, DAY) + PAUSE);
  }

  // ---- The event stream ----

  function follow() {
    if (stream || document.hidden || !watched.length) return;
    let isLoaded = !behind; // the first event repeats the state of a page that was just loaded
    stream = new EventSource(behind ? "/api/v1/events" : `/api/v1/events?after=${body.dataset.event}`);
    stream.addEventListener("open", () => {
      lost(false);
      if (behind) { behind = false; missed(); plan(); }
    });
    stream.addEventListener("error", () => {
      behind = true;
      lost(true);
      if (stream.readyState === EventSource.CLOSED) { // the service refused: it starts, or the login has ended
        stream = null;
        setTimeout(() => { missed(); plan(); }, RETRY);
      }
    });
    for (const kind of watched) {
      stream.addEventListener(kind, event => {
        if (kind === "check" && isForeign(JSON.parse(event.data))) return;
        if (!kinds.includes(kind)) frame = true;
        else if (kind === "host") changed.add(JSON.parse(event.data).id);
        else everything = true;
        plan();
      });
    }
    for (const kind of ["feed", "reset"]) {
      stream.addEventListener(kind, event => {
        const isStale = Boolean(document.querySelector("#freshness .notice"));
        const isKnown = isLoaded && JSON.parse(event.data).connected === !isStale;
        isLoaded = false;
        if (!isKnown) { missed(); plan(); }
      });
    }
  }

  // The page of a service shows its own checks; an event for many checks names no path.
  function isForeign({path}) {
    const own = document.querySelector("[data-service]")?.dataset.service;
    return Boolean(own && path && path !== own);
  }

  // Everything on the page may have changed; a form keeps what a person has typed, and renews only its frame.
  function missed() {
    if (kinds.length) everything = true; else frame = true;
  }

  function lost(is) {
    document.getElementById("connection").hidden = !is;
  }

  addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stream?.close();
      stream = null;
      behind = true;
    } else {
      ages();
      follow();
    }
  });
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", event => {
    if (event.persisted) { stream = null; behind = true; follow(); }
  });

  // ---- Other views of the list: filters, orders and pages ----

  document.addEventListener("click", event => {
    const link = event.target.closest("a[data-view]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    refresh(link.href, {push: true});
  });
  addEventListener("popstate", () => refresh(location.href, {whole: true}));

  const search = document.getElementById("search");
  const field = search?.querySelector("input[type=search]");
  let typing = null;
  function find() {
    clearTimeout(typing);
    const address = new URL(location.href);
    const text = field.value.trim();
    if (text) address.searchParams.set(field.name, text); else address.searchParams.delete(field.name);
    address.searchParams.delete("page");
    if (address.href !== location.href) refresh(address.href, {push: true});
  }
  search?.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(find, 300); });
  search?.addEventListener("submit", event => { event.preventDefault(); find(); });
  if (field && field.value !== field.defaultValue) find(); // the user typed before this script was loaded

  // ---- Ages ----

  function ages() {
    for (const element of document.querySelectorAll("time[data-age]")) {
      const text = ago(Date.now() / 1000 - skew - Date.parse(element.dateTime) / 1000);
      if (element.textContent !== text) element.textContent = text;
    }
    for (const element of document.querySelectorAll("time[data-until]")) {
      const left = Date.parse(element.dateTime) / 1000 - Date.now() / 1000 + skew;
      const text = left > 0 ? `in ${duration(left)}` : "now";
      if (element.textContent !== text) element.textContent = text;
    }
  }

  function ago(seconds) {
    return `${duration(seconds)} ago`;
  }

  function duration(seconds) {
    const units = [[86400, "d"], [3600, "h"], [60, "min"]];
    const rest = Math.max(0, seconds);
    for (const [place, [length, unit]] of units.entries()) {
      if (rest < length) continue;
      const whole = Math.floor(rest / length);
      const smaller = units[place + 1];
      if (whole >= 10 || !smaller || rest % length < smaller[0]) return `${whole} ${unit}`;
      return `${whole} ${unit} ${Math.floor(rest % length / smaller[0])} ${smaller[1]}`;
    }
    return `${Math.floor(rest)} s`;
  }
  setInterval(() => { if (!document.hidden) ages(); }, AGES);

  // ---- The output of a running script, which is fetched only while this page is visible ----

  setInterval(async () => {
    const address = document.querySelector("[data-output]")?.dataset.output;
    if (!address || document.hidden || fetching) return;
    try {
      const response = await fetch(address, {headers: {"X-Page-Parts": "true"}, cache: "no-store"});
      const text = response.ok ? await response.text() : "";
      await up;
      if (text && !fetching) replaceParts(text);
    } catch {
      // the event stream shows that the connection is lost
    }
  }, OUTPUT);

  // ---- The map: a pointer over a cell shows its host, a click opens the page of the host ----

  let tip = null;
  let hover = null;
  let shown = null; // the place that the tip shows, or will show
  let pointer = null; // the position of the pointer at that place

  function position(element, {clientX, clientY}) {
    const block = element?.closest?.(".block");
    const drawing = block?.querySelector("svg");
    if (!drawing) return null;
    const box = drawing.getBoundingClientRect();
    const size = box.width / 10;
    const column = Math.floor((clientX - box.left) / size), row = Math.floor((clientY - box.top) / size);
    if (column < 0 || column > 9 || row < 0 || row > 9) return null;
    const cell = row * 10 + column;
    return cell < Number(block.dataset.hosts) ? Number(block.id.slice("block-".length)) * 100 + cell : null;
  }

  function addressOf(place) {
    return `/map/${place}?map=${document.getElementById("map").dataset.order}`;
  }

  function hide() {
    clearTimeout(hover);
    tip?.remove();
    tip = shown = null;
  }

  async function show(place) {
    let text;
    try {
      const response = await fetch(addressOf(place), {headers: {"X-Page-Parts": "true"}});
      text = response.ok ? await response.text() : null;
    } catch {
      text = null;
    }
    if (shown !== place) return;
    if (text === null) { hide(); return; } // the next movement tries again
    if (!tip) {
      tip = document.createElement("div");
      tip.className = "tip";
      body.append(tip);
    }
    tip.textContent = text;
    const x = scrollX + pointer.clientX, y = scrollY + pointer.clientY;
    tip.style.left = `${Math.max(8, Math.min(x + 12, scrollX + innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 16}px`;
  }

  // A pointer that rests does not send events when the map changes below it.
  function renew() {
    if (shown === null) return;
    const place = position(document.elementFromPoint(pointer.clientX, pointer.clientY), pointer);
    if (place !== shown) hide();
    shown = place;
    if (place !== null) show(place);
  }

  document.addEventListener("pointermove", event => {
    if (event.pointerType !== "mouse") return;
    const place = position(event.target, event);
    if (place === shown) return;
    hide();
    if (place === null) return;
    shown = place;
    pointer = event;
    hover = setTimeout(show, 150, place);
  }, {passive: true});
  document.addEventListener("click", event => {
    const place = position(event.target, event);
    if (place === null || event.ctrlKey || event.metaKey || event.shiftKey || event.detail === 0) return;
    event.preventDefault();
    location.assign(addressOf(place));
  });

  follow();
  expire();
})();
