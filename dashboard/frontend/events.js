// What a hand does on a chart, told to the server: a click on a point, a box, a box with the shift key, a double click.
const SECOND_CLICK = 300; // milliseconds within which a second click makes a double one

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
    const point = event.points[0];
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
