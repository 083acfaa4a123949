// A chart as a PNG that speaks for itself: above it what is shown, of which stream, under which decay, as of when.
import { themed } from "./theme.js";

const LINE = 19; // pixels
const MARGIN = 14;
const FONT = "sans-serif"; // the page's own letters are not at hand where a picture is made

export function savePicture(chart) {
  const { data, layout, told, name } = JSON.parse(chart.text);
  const [first, ...others] = told.filter(Boolean);
  const above = LINE * (1 + others.length);
  const height = chart.plot._fullLayout.height + above;
  const drawn = themed(layout, chart.root, chart.width, themed.paper(chart.root));
  drawn.template.layout.font.family = FONT;
  drawn.height = height;
  drawn.margin = { ...drawn.margin, t: (drawn.margin?.t ?? 40) + above, l: Math.max(drawn.margin?.l ?? 0, MARGIN) };
  drawn.title = {
    text: [`<b>${first ?? ""}</b>`, ...others.map((line) => `<span style="font-size:12px">${line}</span>`)].join("<br>"),
    font: { size: 15 },
    x: MARGIN / chart.width,
    xref: "container",
    xanchor: "left",
    y: 1 - MARGIN / height,
    yref: "container",
    yanchor: "top",
  };
  return window.Plotly.downloadImage(
    { data, layout: drawn },
    { format: "png", filename: name, width: chart.width, height, scale: 2 },
  );
}
