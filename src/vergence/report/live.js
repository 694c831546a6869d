"use strict";
// The table of runs, asked for every two seconds and changed in place; or one run's page, loaded again when it changes.
(() => {
  const PERIOD = 2000;
  const COLUMNS = [
    ["run", "run"], ["state", "state"], ["data", "data"], ["method", "method"], ["encoder", "encoder"], ["batch", "batch"],
    ["epoch", "epoch"], ["loss", "loss"], ["thermometer", "thermometer"], ["probe", "linear probe"], ["verdict", "verdict"],
    ["changed", "changed"],
  ];
  const ask = (path) => fetch(path).then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.status))));
  const said = document.querySelector("output");
  const shown = (row, key) => {
    const value = row[key];
    if (value === null || value === undefined) return "–";
    if (key === "epoch") return row.epochs ? `${value} of ${row.epochs}` : String(value);
    if (key === "changed") return new Date(1000 * value).toLocaleString();
    if (key === "probe") return (100 * value).toFixed(1) + " %";
    return typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(4) : String(value);
  };

  function table() {
    const head = document.querySelector("thead tr"), body = document.querySelector("tbody"), filter = document.querySelector("input");
    let rows = [], by = "changed", rising = false;
    for (const [key, title] of COLUMNS) {
      const cell = document.createElement("th"), button = document.createElement("button");
      cell.scope = "col";
      cell.dataset.key = key;
      button.type = "button";
      button.textContent = title;
      button.addEventListener("click", () => { [by, rising] = [key, by === key ? !rising : true]; draw(); });
      cell.append(button);
      head.append(cell);
    }
    const compared = (a, b) => {
      const [x, y] = [a[by], b[by]];
      if (x === null || x === undefined) return 1;
      if (y === null || y === undefined) return -1;
      return (typeof x === "number" ? x - y : String(x).localeCompare(String(y))) * (rising ? 1 : -1);
    };
    function draw() {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const kept = rows.filter((row) => words.every((word) => COLUMNS.some(([key]) => shown(row, key).toLowerCase().includes(word))));
      for (const cell of head.children)
        cell.dataset.key === by ? cell.setAttribute("aria-sort", rising ? "ascending" : "descending") : cell.removeAttribute("aria-sort");
      const lines = kept.sort(compared).map((row) => {
        const line = document.createElement("tr");
        line.className = row.state;
        for (const [key] of COLUMNS) {
          const cell = document.createElement(key === "run" ? "th" : "td");
          cell.className = "short";
          if (key === "run") {
            const link = document.createElement("a");
            link.href = "/run/" + row.run.split("/").map(encodeURIComponent).join("/");
            link.textContent = row.run;
            cell.scope = "row";
            cell.append(link);
          } else cell.textContent = shown(row, key);
          line.append(cell);
        }
        return line;
      });
      const held = document.activeElement && document.activeElement.href;
      body.replaceChildren(...lines);
      if (held) for (const link of body.querySelectorAll("a")) if (link.href === held) link.focus();
      const going = rows.filter((row) => row.state === "training").length;
      const text = `${kept.length} of ${rows.length} runs, ${going} training`;
      if (said.textContent !== text) said.textContent = text;
    }
    filter.addEventListener("input", draw);
    const refresh = () => ask("/rows").then((found) => { rows = found; draw(); }).catch(() => { said.textContent = "The server does not answer; trying again."; });
    refresh();
    setInterval(refresh, PERIOD);
  }

  function frame() {
    const inner = document.querySelector("iframe"), name = location.pathname.slice("/run/".length);
    let last = null;
    const load = () => {
      if (last === null) return void (inner.src = "/page/" + name);
      const place = inner.contentWindow.scrollY;
      inner.addEventListener("load", () => inner.contentWindow.scrollTo({ top: place, behavior: "instant" }), { once: true });
      inner.contentWindow.location.reload();
    };
    const refresh = () => ask("/stamp/" + name).then(({ stamp }) => {
      if (stamp !== last) { load(); said.textContent = "updated " + new Date().toLocaleTimeString(); }
      last = stamp;
    }).catch(() => { said.textContent = "The server does not answer; trying again."; });
    refresh();
    setInterval(refresh, PERIOD);
  }

  document.body.dataset.kind === "index" ? table() : frame();
})();
