// Values of points: by pointer, by touch, and by the arrow keys of a figure that has the focus.
(() => {
  const tip = document.getElementById("tip");
  let on = null;

  function show(point) {
    if (on) on.classList.remove("on");
    on = point;
    tip.hidden = !point;
    if (!point) return;
    point.classList.add("on");
    tip.textContent = point.dataset.text;
    const box = point.getBoundingClientRect();
    const left = box.left + box.width / 2 - tip.offsetWidth / 2;
    tip.style.left = Math.max(4, Math.min(left, document.documentElement.clientWidth - tip.offsetWidth - 4)) + "px";
    const above = box.top - tip.offsetHeight - 8;
    tip.style.top = (above > 4 ? above : box.bottom + 8) + "px";
  }

  // The next point along the series (left, right), or the nearest of the next series (up, down).
  function step(points, key) {
    if (!on || !points.includes(on)) return points[0];
    const series = Number(on.dataset.s), x = Number(on.dataset.x);
    const place = (point) => Number(point.dataset.x);
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const own = points.filter((point) => Number(point.dataset.s) === series).sort((a, b) => place(a) - place(b));
      return own[own.indexOf(on) + (key === "ArrowRight" ? 1 : -1)] || on;
    }
    const known = [...new Set(points.map((point) => Number(point.dataset.s)))].sort((a, b) => a - b);
    const wanted = known[known.indexOf(series) + (key === "ArrowDown" ? 1 : -1)];
    const there = points.filter((point) => Number(point.dataset.s) === wanted);
    return there.sort((a, b) => Math.abs(place(a) - x) - Math.abs(place(b) - x))[0] || on;
  }

  for (const plot of document.querySelectorAll(".plot")) {
    const points = [...plot.querySelectorAll(".pt")];
    for (const point of points) {
      const title = point.querySelector("title");
      point.dataset.text = title.textContent;
      title.remove(); // the browser's own tip would come beside ours; without this script it stays
      point.addEventListener("pointerenter", () => show(point));
      point.addEventListener("click", () => show(point));
    }
    plot.addEventListener("pointerleave", () => show(null));
    plot.addEventListener("blur", () => show(null));
    plot.addEventListener("keydown", (event) => {
      if (event.key === "Escape") show(null);
      if (!event.key.startsWith("Arrow") || !points.length) return;
      event.preventDefault();
      show(step(points, event.key));
    });
  }
  window.addEventListener("beforeprint", () => {
    for (const section of document.querySelectorAll("details.section")) section.open = true; // paper cannot be unfolded
  });
  window.addEventListener("scroll", () => show(null), { passive: true });
})();
