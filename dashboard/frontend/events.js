// What a hand does on a chart, told to the server: a click on a point, a box, a box with the shift key, a double click.
const SECOND_CLICK = 300; // milliseconds within which a second click makes a double one
const NEAR = 20; // pixels from the pointer, within which a point is meant

// The point whose place across is nearest to the pointer. Plotly looks for it every 50 ms at most, and after a redraw
// where the pointer was before: a click that comes just then would be told with a point from there.
function nearest(plot, event) {
  const { xaxis } = plot._fullLayout;
  const place = event.clientX - plot.getBoundingClientRect().left - xaxis._offset;
  let [found, distance] = [undefined, NEAR];
  for (const trace of plot._fullData) {
    if (trace.visible !== true || trace.hoverinfo === "skip") continue;
    trace.x.forEach((x, at) => {
      const away = Math.abs(xaxis.d2p(x) - place);
      if (away > distance || !Number.isFinite(trace.y[at])) return;
      [found, distance] = [{ curveNumber: trace.index, pointIndex: at, x, y: trace.y[at] }, away];
    });
  }
  return found;
}

export function listen(chart) {
  const { plot } = chart;
  let shift = false;
  let first = null; // a click that may become a double one
  const asked = (what) => chart.spec.listens.includes(what);
  const tell = (what) => chart.send("selection", { points: [], box: [], shifted: [], back: false, ...what });
  const choose = (point) => {
    if (!asked("points") || point === undefined) return;
    const { curveNumber, x, y } = point;
    tell({ points: [{ curve_number: curveNumber, point_index: point.pointIndex ?? point.pointNumber, x, y }] });
  };

  plot.addEventListener("pointerdown", (event) => (shift = event.shiftKey), true);
  plot.on("plotly_selected", (event) => {
    const x = event?.range?.x;
    if (x === undefined) return;
    chart.draw(); // takes the box away
    if (shift && asked("shifted")) tell({ shifted: [{ x }] });
    else if (asked("box")) tell({ box: [{ x }] });
  });
  plot.on("plotly_click", (event) => {
    if (!asked("back")) choose(plot._fullLayout.hovermode === "x" ? nearest(plot, event.event) : event.points[0]);
  });
  // Where a double click goes back, clicks are paired here: Plotly counts a third one that comes soon as belonging to
  // the two before it, and then two double clicks are one that goes back and one that chooses a point.
  plot.addEventListener("click", (event) => {
    if (!asked("back") || !event.target.classList.contains("drag")) return;
    if (first !== null) {
      clearTimeout(first);
      first = null;
      tell({ back: true });
      return;
    }
    const point = nearest(plot, event);
    first = setTimeout(() => {
      first = null;
      choose(point);
    }, SECOND_CLICK);
  });
}
