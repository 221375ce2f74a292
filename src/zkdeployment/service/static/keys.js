// Keys for people who act fast, and the palette that finds hosts, services, publications, pages and acts.
//
// Everything here is also reached by links: the keys follow the links with data-key, and the palette shows what /find
// answers.
"use strict";

(() => {
  const HELP = [
    ["/", "search on this page"], ["Ctrl K", "find hosts, services, commits, pages and acts"],
    ["j, k", "next and previous row"], ["Enter", "open the row"], ["g, then a letter", "open a page"],
    ["!", "stop the fleet"], ["?", "these keys"], ["Esc", "close"],
  ];
  const ROWS = "main tbody th a, main .problem h3 a, main .problem .hosts a:first-child, main a.tile, main .group h3 a";
  let dialog = null; // the last one: the palette or the keys
  let going = false; // whether the key before was g

  function open(content, name) {
    dialog?.remove();
    const opened = dialog = document.createElement("dialog");
    dialog.className = "palette";
    dialog.setAttribute("aria-label", name);
    dialog.append(...content);
    opened.addEventListener("close", () => opened.remove()); // comes after the key that follows at once
    dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
    document.body.append(dialog);
    dialog.showModal();
  }

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function help() {
    const list = element("dl", "", {class: "facts"});
    const pages = [...document.querySelectorAll("nav a[data-key]")].map(link => [`g ${link.dataset.key}`, link.textContent]);
    for (const [key, text] of [...HELP, ...pages]) {
      const term = element("dt", "");
      term.append(element("kbd", key));
      list.append(term, element("dd", text));
    }
    open([element("h2", "Keys"), list], "Keys");
  }

  function palette() {
    const field = element("input", "", {type: "search", "aria-label": "Find", autocomplete: "off", spellcheck: "false",
      placeholder: "host, service, commit, page or act"});
    const results = element("div", "", {role: "status"});
    let asked = 0, timer = null;
    async function find() {
      const number = ++asked;
      try {
        const response = await fetch(`/find?text=${encodeURIComponent(field.value)}`, {headers: {"X-Page-Parts": "true"}});
        const found = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("found");
        if (number === asked && found) results.replaceChildren(...found.childNodes);
      } catch { results.textContent = "The service does not answer."; }
    }
    field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(find, 120); });
    field.addEventListener("keydown", event => {
      if (event.key === "Enter") { event.preventDefault(); clearTimeout(timer); find().then(() => results.querySelector("a")?.click()); }
    });
    open([field, results], "Find");
    field.focus();
    find();
  }

  function move(step, within) {
    const rows = [...within].filter(row => row.offsetParent);
    const place = rows.indexOf(document.activeElement);
    rows[place < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, place + step))]?.focus();
  }

  document.getElementById("find")?.addEventListener("click", event => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    palette();
  });

  document.addEventListener("keydown", event => {
    const key = event.key;
    if ((event.ctrlKey || event.metaKey) && key.toLowerCase() === "k") {
      if (!document.getElementById("find")) return;
      event.preventDefault();
      palette();
      return;
    }
    if (dialog?.open && ["ArrowDown", "ArrowUp"].includes(key)) {
      event.preventDefault();
      move(key === "ArrowDown" ? 1 : -1, dialog.querySelectorAll("a"));
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || dialog?.open || event.target.closest("input:not(#menu), select, textarea")) return;
    const wasGoing = going;
    going = false;
    if (wasGoing) {
      document.querySelector(`nav a[data-key="${CSS.escape(key)}"]`)?.click();
    } else if (key === "g") {
      going = true;
    } else if (key === "j" || key === "k") {
      move(key === "j" ? 1 : -1, document.querySelectorAll(ROWS));
    } else if (key === "/") {
      const field = document.querySelector("main input[type=search]");
      event.preventDefault();
      if (field) field.focus(); else document.getElementById("find")?.click();
    } else if (key === "?") {
      help();
    } else if (key === "Escape" && document.querySelector("#more[open]")) {
      document.getElementById("more").open = false;
      document.querySelector("#more summary").focus();
    } else if (key === "!") {
      document.querySelector("a[data-key='!']")?.click();
    }
  });
})();
