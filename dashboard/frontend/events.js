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
  let waiting = null;
  let wentBack = -Infinity;
  const doubled = () => performance.now() - wentBack < SECOND_CLICK; // events of the double click that was told already
  const asked = (what) => chart.spec.listens.includes(what);
  const tell = (what) => chart.send("selection", { points: [], box: [], shifted: [], back: false, ...what });

  plot.addEventListener("pointerdown", (event) => (shift = event.shiftKey), true);
  plot.on("plotly_selected", (event) => {
    const x = event?.range?.x;
    if (x === undefined) return;
    chart.draw(); // takes the box away
    if (shift && asked("shifted")) tell({ shifted: [{ x }] });
    else if (asked("box")) tell({ box: [{ x }] });
  });
  plot.on("plotly_click", (event) => {
    const across = plot._fullLayout.hovermode === "x";
    const point = across ? nearest(plot, event.event) : event.points[0];
    if (!asked("points") || point === undefined || waiting !== null || doubled()) return;
    const clicked = {
      curve_number: point.curveNumber,
      point_index: point.pointIndex ?? point.pointNumber,
      x: point.x,
      y: point.y,
    };
    const send = () => {
      waiting = null;
      tell({ points: [clicked] });
    };
    if (asked("back")) waiting = setTimeout(send, SECOND_CLICK);
    else send();
  });
  const goBack = () => {
    if (!asked("back") || doubled()) return;
    clearTimeout(waiting);
    waiting = null;
    wentBack = performance.now();
    tell({ back: true });
  };
  plot.on("plotly_doubleclick", goBack);
  plot.on("plotly_deselect", goBack); // what a double click is where boxes are drawn
}
