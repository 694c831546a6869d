"use strict";
// A map of up to 100,000 samples, drawn into the pixels of a canvas, so that it moves without a graphics card:
// zoom, pan, show the sample under the pointer, color by any column, select with a lasso.
(() => {
  const NONE = 65535; // the value of a sample without one
  const REACH = 18; // pixels within which a pointer finds a sample
  const GRID = 128; // cells a side of the index that finds it
  const LONGEST = 28; // letters of a name that are shown; the whole name is in its title
  const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]; // viridis
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
  const short = (text) => text.length <= LONGEST ? text : text.slice(0, LONGEST / 2 - 1) + "…" + text.slice(-LONGEST / 2);
  const packed = (r, g, b, a) => ((a << 24) | (b << 16) | (g << 8) | r) >>> 0;
  const channels = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));

  function scatter(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const part = (name) => figure.querySelector(name);
    const [canvas, tip, spoken, legend, chooser] = ["canvas", ".tip", ".spoken", ".legend", ".by"].map(part);
    const points = new Uint16Array(bytes(data.points)), count = points.length / 2;
    const rows = data.rows ? new Uint32Array(bytes(data.rows)) : null;
    const numbers = data.numbers ? new Uint32Array(bytes(data.numbers)) : null;
    const columns = data.columns.map((one) => ({ ...one, values: new Uint16Array(bytes(one.values)) }));
    const row = (i) => (rows ? rows[i] : i);
    const [starts, members] = indexed(points, count);
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    let width = 0, height = 0, density = 1, fit = 1, zoom = 1, left = 0, top = 0;
    let column = columns[0] || null, only = -1, current = -1, chosen = [], lasso = null, selecting = false, due = false;
    let image = null, pixels = null;

    const across = (i) => width / 2 + ((points[2 * i] / 65535 - 0.5) * data.extent[0] * fit + left) * zoom;
    const down = (i) => height / 2 - ((points[2 * i + 1] / 65535 - 0.5) * data.extent[1] * fit - top) * zoom;
    const dataX = (x) => (((x - width / 2) / zoom - left) / (data.extent[0] * fit) + 0.5) * 65535;
    const dataY = (y) => (((height / 2 - y) / zoom + top) / (data.extent[1] * fit) + 0.5) * 65535;
    const value = (i) => (column ? column.values[i] : NONE);

    function place() {
      const margin = 22;
      [width, height, density] = [canvas.clientWidth, canvas.clientHeight, Math.min(2, window.devicePixelRatio || 1)];
      if (Math.min(width, height) <= 2 * margin) return; // not laid out yet
      canvas.width = Math.round(width * density);
      canvas.height = Math.round(height * density);
      fit = Math.min((width - 2 * margin) / data.extent[0], (height - 2 * margin) / data.extent[1]);
      image = pen.createImageData(canvas.width, canvas.height);
      pixels = new Uint32Array(image.data.buffer);
      draw();
    }

    function later() {
      if (!due) requestAnimationFrame(() => { due = false; draw(); });
      due = true;
    }

    function shades() {
      if (!column) return () => packed(...channels(color("--accent")), 225);
      if (column.kind === "number") {
        const table = Array.from({ length: 256 }, (_, step) => packed(...ramp(step / 255), 235));
        const none = packed(...channels(color("--quiet")), 90);
        return (v) => (v === NONE ? none : table[v >> 8]);
      }
      const table = Array.from({ length: 10 }, (_, n) => packed(...channels(color("--category-" + n)), 225));
      const none = packed(...channels(color("--quiet")), 90);
      return (v) => (v === NONE ? none : table[v % 10]);
    }

    function draw() {
      if (!pixels) return;
      const base = count > 20000 ? 1.6 : count > 5000 ? 2.4 : count > 1000 ? 4 : 6;
      const size = Math.max(1, Math.round(base * Math.min(2.5, Math.sqrt(zoom)) * density));
      pixels.fill(0);
      const shade = shades(), stamp = size > 2 ? disc(size) : null, wide = canvas.width, high = canvas.height;
      const picked = chosen.length ? new Uint8Array(count) : null;
      for (const i of chosen) picked[i] = 1;
      const faint = (i) => (only >= 0 && value(i) !== only) || (picked && !picked[i]);
      const dims = only >= 0 || picked;
      const ax = data.extent[0] * fit * zoom * density / 65535, bx = (width / 2 + (left - data.extent[0] * fit / 2) * zoom) * density;
      const ay = -data.extent[1] * fit * zoom * density / 65535, by = (height / 2 + (top + data.extent[1] * fit / 2) * zoom) * density;
      for (let pass = dims ? 0 : 1; pass < 2; pass++) {
        for (let i = 0; i < count; i++) {
          if (dims && faint(i) !== (pass === 0)) continue;
          const x = Math.round(points[2 * i] * ax + bx - size / 2), y = Math.round(points[2 * i + 1] * ay + by - size / 2);
          if (x < 0 || y < 0 || x + size > wide || y + size > high) continue;
          let ink = shade(value(i));
          if (pass === 0) ink = ((ink & 0xffffff) | (18 << 24)) >>> 0;
          if (!stamp) {
            for (let b = 0; b < size; b++) for (let a = 0; a < size; a++) pixels[(y + b) * wide + x + a] = ink;
            continue;
          }
          const full = ink >>> 24;
          for (let b = 0, k = 0; b < size; b++) for (let a = 0; a < size; a++, k++) {
            const alpha = (full * stamp[k]) | 0, at = (y + b) * wide + x + a;
            if (alpha > 0 && alpha >= pixels[at] >>> 24) pixels[at] = ((ink & 0xffffff) | (alpha << 24)) >>> 0;
          }
        }
      }
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.putImageData(image, 0, 0);
      pen.setTransform(density, 0, 0, density, 0, 0);
      overlay(size / density);
    }

    function overlay(size) {
      if (data.circle) {
        pen.strokeStyle = color("--line");
        pen.beginPath();
        pen.arc(width / 2 + left * zoom, height / 2 + top * zoom, (data.extent[0] / 2) * fit * zoom, 0, 7);
        pen.stroke();
      }
      if (column && column.kind === "group" && column.names.length <= 60) names();
      pen.strokeStyle = color("--ink");
      pen.lineWidth = 2;
      if (current >= 0) {
        pen.beginPath();
        pen.arc(across(current), down(current), size / 2 + 4, 0, 7);
        pen.stroke();
      }
      if (lasso) {
        pen.setLineDash([5, 4]);
        pen.beginPath();
        for (const [x, y] of lasso) pen.lineTo(x, y);
        pen.closePath();
        pen.stroke();
        pen.setLineDash([]);
      }
    }

    // A name in the middle of its group, the largest groups first; one that would cover another is left out.
    function names() {
      const middles = column.middles || (column.middles = centers(column));
      const taken = [];
      pen.font = "600 12px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      for (const { group, x, y } of middles) {
        if (only >= 0 && group !== only) continue;
        const text = short(column.names[group]), half = pen.measureText(text).width / 2 + 3;
        let sx = width / 2 + ((x / 65535 - 0.5) * data.extent[0] * fit + left) * zoom;
        let sy = height / 2 - ((y / 65535 - 0.5) * data.extent[1] * fit - top) * zoom;
        if (sx < 0 || sy < 0 || sx > width || sy > height) continue;
        [sx, sy] = [Math.min(Math.max(sx, half + 2), width - half - 2), Math.min(Math.max(sy, 10), height - 10)];
        if (taken.some(([a, b, c]) => Math.abs(a - sx) < c + half && Math.abs(b - sy) < 15)) continue;
        taken.push([sx, sy, half]);
        pen.lineWidth = 4;
        pen.strokeStyle = color("--paper");
        pen.strokeText(text, sx, sy);
        pen.fillStyle = color("--ink");
        pen.fillText(text, sx, sy);
      }
    }

    function centers(one) {
      const groups = new Map();
      for (let i = 0; i < count; i++) {
        const v = one.values[i];
        if (v === NONE) continue;
        groups.has(v) ? groups.get(v).push(i) : groups.set(v, [i]);
      }
      const middle = (list, offset) => {
        const sorted = Uint16Array.from(list, (i) => points[2 * i + offset]).sort();
        return sorted[sorted.length >> 1];
      };
      const found = [...groups].map(([group, list]) => {
        if (!data.circle) return { group, size: list.length, x: middle(list, 0), y: middle(list, 1) };
        let dx = 0, dy = 0;
        for (const i of list) [dx, dy] = [dx + points[2 * i] - 32767.5, dy + points[2 * i + 1] - 32767.5];
        const reach = (0.41 * 65535) / (Math.hypot(dx, dy) || 1);
        return { group, size: list.length, x: 32767.5 + dx * reach, y: 32767.5 + dy * reach };
      });
      return found.sort((a, b) => b.size - a.size);
    }

    function nearest(px, py) {
      const cell = (v) => Math.min(GRID - 1, Math.max(0, Math.floor((v / 65536) * GRID)));
      const x0 = cell(dataX(px - REACH)), x1 = cell(dataX(px + REACH)), y0 = cell(dataY(py + REACH)), y1 = cell(dataY(py - REACH));
      let best = -1, least = REACH * REACH;
      for (let cy = y0; cy <= y1; cy++) for (let cx = x0; cx <= x1; cx++) {
        const c = cy * GRID + cx;
        for (let k = starts[c]; k < starts[c + 1]; k++) {
          const i = members[k];
          if (only >= 0 && value(i) !== only) continue;
          const far = (across(i) - px) ** 2 + (down(i) - py) ** 2;
          if (far < least) [best, least] = [i, far];
        }
      }
      return best;
    }

    const called = (i) => "sample " + (numbers ? numbers[i] : row(i));
    function words(i) {
      const lines = [called(i)];
      if (data.names && data.names[row(i)]) lines.push(data.names[row(i)]);
      for (const one of columns) {
        const v = one.values[i];
        if (v === NONE || (one !== columns[0] && one !== column)) continue;
        const text = one.kind === "group" ? one.names[v] : (one.low + ((one.high - one.low) * v) / 65534).toPrecision(3);
        lines.push(one.name === "class" ? text : one.name + ": " + text);
      }
      return lines;
    }

    function show(i) {
      if (i === current) return;
      current = i;
      later();
      tip.hidden = i < 0;
      if (i < 0) return;
      const thumbnail = tip.querySelector(".thumbnail"), number = row(i);
      const wide = Number(document.body.dataset.columns || 1);
      thumbnail.hidden = number >= Number(document.body.dataset.thumbnails || 0);
      thumbnail.style.setProperty("--column", number % wide);
      thumbnail.style.setProperty("--line-number", Math.floor(number / wide));
      tip.querySelector(".words").textContent = words(i).join("\n");
      spoken.textContent = words(i).join(", ");
      const x = across(i), y = down(i);
      const beside = x + 14 + tip.offsetWidth > width ? x - 14 - tip.offsetWidth : x + 14;
      const above = Math.min(Math.max(0, y - tip.offsetHeight / 2), height - tip.offsetHeight);
      tip.style.transform = `translate(${Math.max(0, beside)}px, ${above}px)`;
    }

    // The closest sample in the direction of an arrow, counting sideways steps twice.
    function step(dx, dy) {
      let best = current < 0 ? 0 : current, least = Infinity;
      const x = current < 0 ? 0 : across(current), y = current < 0 ? 0 : down(current);
      for (let i = 0; i < count && current >= 0; i++) {
        const a = across(i) - x, b = down(i) - y, along = a * dx + b * dy;
        const aside = Math.abs(a * dy) + Math.abs(b * dx);
        if (along > 0.5 && along + 2 * aside < least) [best, least] = [i, along + 2 * aside];
      }
      show(best);
    }

    function magnify(factor, x = width / 2, y = height / 2) {
      const before = zoom;
      zoom = Math.min(200, Math.max(1, zoom * factor));
      left += (x - width / 2) * (1 / zoom - 1 / before);
      top += (y - height / 2) * (1 / zoom - 1 / before);
      if (zoom === 1) left = top = 0;
      show(-1);
      later();
    }

    function select(list) {
      chosen = list;
      const box = part(".selected");
      box.hidden = !list.length;
      box.querySelector("output").textContent = `${list.length.toLocaleString("en")} samples selected`;
      box.querySelector("textarea").value = list.map((i) => [called(i), ...words(i).slice(1)].join("\t")).join("\n");
      later();
    }

    function inside(x, y) {
      let within = false;
      for (let a = 0, b = lasso.length - 1; a < lasso.length; b = a++) {
        const [x1, y1] = lasso[a], [x2, y2] = lasso[b];
        if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) within = !within;
      }
      return within;
    }

    function relegend() {
      legend.replaceChildren();
      legend.hidden = !column;
      if (!column) return;
      if (column.kind === "number") {
        const bar = document.createElement("span");
        bar.className = "ramp";
        bar.style.background = `linear-gradient(to right, ${RAMP.map((c) => `rgb(${c})`).join(",")})`;
        legend.append(column.low.toPrecision(3), bar, column.high.toPrecision(3));
        return;
      }
      const counts = new Uint32Array(column.names.length);
      for (let i = 0; i < count; i++) if (column.values[i] < counts.length) counts[column.values[i]]++;
      column.names.forEach((name, number) => {
        if (!counts[number]) return;
        const button = document.createElement("button"), swatch = document.createElement("i"), small = document.createElement("small");
        button.type = "button";
        button.title = name;
        button.setAttribute("aria-pressed", "false");
        button.dataset.class = number;
        swatch.style.setProperty("--swatch", `var(--category-${number % 10})`);
        small.textContent = counts[number].toLocaleString("en");
        button.append(swatch, short(name), small);
        button.addEventListener("click", () => {
          only = only === number ? -1 : number;
          for (const other of legend.querySelectorAll("button"))
            other.setAttribute("aria-pressed", String(Number(other.dataset.class) === only));
          later();
        });
        legend.append(button);
      });
    }

    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { show(-1); select([]); }
      if (event.key === "+" || event.key === "=") magnify(1.5);
      if (event.key === "-") magnify(1 / 1.5);
      if (event.key === "Enter" && current >= 0)
        select(chosen.includes(current) ? chosen.filter((i) => i !== current) : [...chosen, current]);
      if (!(event.key in arrows)) return;
      event.preventDefault();
      step(...arrows[event.key]);
    });
    const fingers = new Map();
    let dragged = false;
    canvas.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
      dragged = false;
      if (event.pointerType === "mouse" || selecting || zoom > 1) canvas.setPointerCapture(event.pointerId);
      if (selecting || event.shiftKey) lasso = [[event.offsetX, event.offsetY]];
      else show(nearest(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId), here = [event.offsetX, event.offsetY];
      if (!before) return show(nearest(...here));
      const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, spot]) => spot);
      fingers.set(event.pointerId, here);
      if (lasso) lasso.push(here);
      else if (others.length) {
        const apart = ([x, y]) => Math.hypot(x - others[0][0], y - others[0][1]);
        magnify(apart(here) / Math.max(1, apart(before)), (here[0] + others[0][0]) / 2, (here[1] + others[0][1]) / 2);
      } else if (event.pointerType === "mouse" || zoom > 1) {
        dragged = dragged || Math.hypot(here[0] - before[0], here[1] - before[1]) > 2;
        if (zoom > 1) { left += (here[0] - before[0]) / zoom; top += (here[1] - before[1]) / zoom; }
        if (dragged) show(-1);
      }
      later();
    });
    const released = (event) => {
      fingers.delete(event.pointerId);
      if (lasso && lasso.length > 2) {
        const found = [];
        for (let i = 0; i < count; i++) {
          if ((only < 0 || value(i) === only) && inside(across(i), down(i))) found.push(i);
        }
        select(found);
      }
      lasso = null;
      later();
    };
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, released);
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") show(-1); });
    canvas.addEventListener("blur", () => show(-1));
    // A page should scroll under the wheel; the map zooms once it was clicked, or with the control key.
    canvas.addEventListener("wheel", (event) => {
      if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      magnify(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => magnify(2, event.offsetX, event.offsetY));
    part(".closer").addEventListener("click", () => magnify(1.5));
    part(".further").addEventListener("click", () => magnify(1 / 1.5));
    part(".whole").addEventListener("click", () => { magnify(0); select([]); });
    part(".lasso").addEventListener("click", (event) => {
      selecting = !selecting;
      event.currentTarget.setAttribute("aria-pressed", String(selecting));
      canvas.style.touchAction = selecting ? "none" : "";
    });
    part(".copy").addEventListener("click", () => { part(".selected textarea").select(); document.execCommand("copy"); });
    if (chooser) chooser.addEventListener("change", () => {
      [column, only] = [columns[Number(chooser.value)], -1];
      relegend();
      later();
    });
    relegend();
    new ResizeObserver(place).observe(canvas);
    for (const medium of ["(prefers-color-scheme: dark)", "print"]) matchMedia(medium).addEventListener("change", later);
  }

  function ramp(share) {
    const at = share * (RAMP.length - 1), low = Math.min(RAMP.length - 2, Math.floor(at));
    return RAMP[low].map((value, channel) => Math.round(value + (RAMP[low + 1][channel] - value) * (at - low)));
  }

  // How much of each pixel of a square a disc in it covers.
  function disc(size) {
    const stamp = new Float32Array(size * size), radius = size / 2;
    for (let b = 0; b < size; b++) for (let a = 0; a < size; a++)
      stamp[b * size + a] = Math.min(1, Math.max(0, radius + 0.5 - Math.hypot(a + 0.5 - radius, b + 0.5 - radius)));
    return stamp;
  }

  // Samples by cell of a grid: those of cell c are members[starts[c]] to members[starts[c + 1] - 1].
  function indexed(points, count) {
    const cell = (i) => ((points[2 * i + 1] / 65536) * GRID | 0) * GRID + ((points[2 * i] / 65536) * GRID | 0);
    const starts = new Uint32Array(GRID * GRID + 1), members = new Uint32Array(count);
    for (let i = 0; i < count; i++) starts[cell(i) + 1]++;
    for (let c = 0; c < GRID * GRID; c++) starts[c + 1] += starts[c];
    const next = starts.slice();
    for (let i = 0; i < count; i++) members[next[cell(i)]++] = i;
    return [starts, members];
  }

  document.querySelectorAll("figure.scatter").forEach(scatter);
})();
