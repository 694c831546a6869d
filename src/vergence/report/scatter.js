"use strict";
// A map of up to tens of thousands of samples on a canvas: hover, touch or arrow keys show the sample under them.
(() => {
  const NONE = 65535; // the label of a sample without one
  const REACH = 18; // pixels within which a pointer finds a sample
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;

  function scatter(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const canvas = figure.querySelector("canvas");
    const tip = figure.querySelector(".tip");
    const spoken = figure.querySelector(".spoken");
    const points = new Uint16Array(bytes(data.points));
    const labels = data.labels ? new Uint16Array(bytes(data.labels)) : null;
    const rows = data.rows ? new Uint32Array(bytes(data.rows)) : null;
    const count = points.length / 2;
    const row = (i) => (rows ? rows[i] : i);
    const numbers = data.numbers ? new Uint32Array(bytes(data.numbers)) : null;
    const x = new Float32Array(count), y = new Float32Array(count);
    let cells = new Map(), current = -1, only = -1, scale = 1, width = 0, height = 0;

    function place() {
      const density = window.devicePixelRatio || 1, margin = 22;
      [width, height] = [canvas.clientWidth, canvas.clientHeight];
      if (Math.min(width, height) <= 2 * margin) return; // not laid out yet
      canvas.width = Math.round(width * density);
      canvas.height = Math.round(height * density);
      const [wide, high] = data.extent;
      scale = Math.min((width - 2 * margin) / wide, (height - 2 * margin) / high);
      cells = new Map();
      for (let i = 0; i < count; i++) {
        x[i] = width / 2 + (points[2 * i] / 65535 - 0.5) * wide * scale;
        y[i] = height / 2 - (points[2 * i + 1] / 65535 - 0.5) * high * scale;
        const cell = ((x[i] / REACH) | 0) + 4096 * ((y[i] / REACH) | 0);
        cells.has(cell) ? cells.get(cell).push(i) : cells.set(cell, [i]);
      }
      draw();
    }

    function draw() {
      const pen = canvas.getContext("2d"), density = canvas.width / width;
      const size = count > 20000 ? 1.6 : count > 5000 ? 2.4 : count > 1000 ? 4 : 6;
      pen.setTransform(density, 0, 0, density, 0, 0);
      pen.clearRect(0, 0, width, height);
      if (data.circle) {
        pen.strokeStyle = color("--line");
        pen.beginPath();
        pen.arc(width / 2, height / 2, (data.extent[0] / 2) * scale, 0, 7);
        pen.stroke();
      }
      const groups = new Map();
      for (let i = 0; i < count; i++) {
        const label = labels ? labels[i] : NONE;
        groups.has(label) ? groups.get(label).push(i) : groups.set(label, [i]);
      }
      for (const [label, members] of groups) {
        pen.fillStyle = label === NONE ? color("--accent") : color("--category-" + (label % 10));
        pen.globalAlpha = only >= 0 && label !== only ? 0.06 : only >= 0 ? 0.95 : 0.7;
        pen.beginPath();
        for (const i of members) {
          if (size < 3) pen.rect(x[i] - size / 2, y[i] - size / 2, size, size);
          else { pen.moveTo(x[i] + size / 2, y[i]); pen.arc(x[i], y[i], size / 2, 0, 7); }
        }
        pen.fill();
      }
      pen.globalAlpha = 1;
      if (labels && data.classes.length <= 30) names(pen, groups);
      if (current >= 0) {
        pen.strokeStyle = color("--ink");
        pen.lineWidth = 2;
        pen.beginPath();
        pen.arc(x[current], y[current], size / 2 + 4, 0, 7);
        pen.stroke();
      }
    }

    // Class names at the medians of the classes: the map can be read without telling its colors apart.
    function names(pen, groups) {
      const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
      pen.font = "600 13px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.lineWidth = 4;
      pen.lineJoin = "round";
      const placed = [];
      for (const [label, members] of groups) {
        if (label === NONE || (only >= 0 && label !== only)) continue;
        const text = data.classes[label].slice(0, 18);
        const at = data.circle ? inside(members) : [middle(members.map((i) => x[i])), middle(members.map((i) => y[i]))];
        const half = pen.measureText(text).width / 2;
        while (placed.some(([a, b, c]) => Math.abs(a - at[0]) < half + c + 2 && Math.abs(b - at[1]) < 15)) at[1] += 4;
        placed.push([...at, half]);
        pen.strokeStyle = color("--paper");
        pen.strokeText(text, ...at);
        pen.fillStyle = color("--ink");
        pen.fillText(text, ...at);
      }
    }

    // On the circle: just inside it, in the mean direction of the class.
    function inside(members) {
      let across = 0, down = 0;
      for (const i of members) [across, down] = [across + x[i] - width / 2, down + y[i] - height / 2];
      const reach = (0.41 * scale) / (Math.hypot(across, down) || 1);
      return [width / 2 + across * reach, height / 2 + down * reach];
    }

    function nearest(px, py) {
      let best = -1, least = REACH * REACH;
      for (let a = -1; a <= 1; a++) for (let b = -1; b <= 1; b++) {
        for (const i of cells.get(((px / REACH) | 0) + a + 4096 * (((py / REACH) | 0) + b)) || []) {
          if (only >= 0 && labels[i] !== only) continue;
          const far = (x[i] - px) ** 2 + (y[i] - py) ** 2;
          if (far < least) [best, least] = [i, far];
        }
      }
      return best;
    }

    function words(i) {
      const lines = ["sample " + (numbers ? numbers[i] : row(i))];
      if (data.names && data.names[row(i)]) lines.push(data.names[row(i)]);
      if (labels && labels[i] !== NONE) lines.push(data.classes[labels[i]]);
      return lines;
    }

    function show(i) {
      if (i === current) return;
      current = i;
      draw();
      tip.hidden = i < 0;
      if (i < 0) return;
      const thumbnail = tip.querySelector(".thumbnail"), number = row(i);
      const columns = Number(document.body.dataset.columns || 1);
      thumbnail.hidden = number >= Number(document.body.dataset.thumbnails || 0);
      thumbnail.style.setProperty("--column", number % columns);
      thumbnail.style.setProperty("--line-number", Math.floor(number / columns));
      tip.querySelector(".words").textContent = words(i).join("\n");
      spoken.textContent = words(i).join(", ");
      const left = x[i] + 14 + tip.offsetWidth > width ? x[i] - 14 - tip.offsetWidth : x[i] + 14;
      const top = Math.min(Math.max(0, y[i] - tip.offsetHeight / 2), height - tip.offsetHeight);
      tip.style.transform = `translate(${Math.max(0, left)}px, ${top}px)`;
    }

    // The closest sample in the direction of an arrow, counting sideways steps twice.
    function step(dx, dy) {
      let best = current < 0 ? 0 : current, least = Infinity;
      for (let i = 0; i < count && current >= 0; i++) {
        const along = (x[i] - x[current]) * dx + (y[i] - y[current]) * dy;
        const aside = Math.abs((x[i] - x[current]) * dy) + Math.abs((y[i] - y[current]) * dx);
        if (along > 0.5 && along + 2 * aside < least) [best, least] = [i, along + 2 * aside];
      }
      show(best);
    }

    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") show(-1);
      if (!(event.key in arrows)) return;
      event.preventDefault();
      step(...arrows[event.key]);
    });
    const point = (event) => show(nearest(event.offsetX, event.offsetY));
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") show(-1); });
    canvas.addEventListener("blur", () => show(-1));
    for (const button of figure.querySelectorAll(".legend button")) {
      button.addEventListener("click", () => {
        const chosen = Number(button.dataset.class);
        only = only === chosen ? -1 : chosen;
        for (const other of figure.querySelectorAll(".legend button"))
          other.setAttribute("aria-pressed", String(Number(other.dataset.class) === only));
        draw();
      });
    }
    new ResizeObserver(place).observe(canvas);
    for (const medium of ["(prefers-color-scheme: dark)", "print"]) matchMedia(medium).addEventListener("change", draw);
  }

  document.querySelectorAll("figure.scatter").forEach(scatter);
})();
