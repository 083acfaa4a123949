// The colours and the letters of the page, light or dark, for a figure that names neither.
const CLEAR = "rgba(0,0,0,0)";

function read(element, name, otherwise) {
  return getComputedStyle(element).getPropertyValue(name).trim() || otherwise;
}

export function themed(layout, element, width, background = CLEAR) {
  const text = read(element, "--st-text-color", "#31333f");
  const paper = read(element, "--st-background-color", "#ffffff");
  const axis = { title: { font: { size: 13 }, standoff: 10 }, tickcolor: text, linecolor: text };
  return {
    ...layout,
    width,
    template: {
      layout: {
        font: { family: read(element, "--st-font", "sans-serif"), size: 12, color: text },
        paper_bgcolor: background,
        plot_bgcolor: background,
        hoverlabel: { bgcolor: paper, bordercolor: text, font: { color: text, size: 13 } },
        legend: { font: { size: 13 }, bgcolor: CLEAR },
        modebar: { bgcolor: CLEAR, color: text, activecolor: read(element, "--st-primary-color", text) },
        xaxis: axis,
        yaxis: axis,
        newselection: { line: { color: text, width: 1, dash: "dot" } },
        activeselection: { opacity: 0.3 },
      },
    },
  };
}

themed.colours = (element) =>
  ["--st-text-color", "--st-background-color", "--st-primary-color"].map((name) => read(element, name, "")).join();

themed.paper = (element) => read(element, "--st-background-color", "#ffffff");
