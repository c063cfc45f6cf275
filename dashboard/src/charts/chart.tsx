/** A chart of ECharts as a component, with its downloads. */

import type { EChartsCoreOption, EChartsType } from "echarts/core";
import { useEffect, useRef } from "preact/hooks";
import { saveBlob } from "../download";
import { texts } from "../i18n";
import { chartColours, isDark } from "../palette";
import { echarts } from "./echarts";

interface Props {
  /** What the chart shows, for those who do not see it, and the name of its files. */
  label: string;
  option: EChartsCoreOption;
  height: number;
  /** The chart, once it is there: for listeners. What is returned is called at its end. */
  onReady?: (chart: EChartsType) => (() => void) | undefined;
  /** What the files show, where that is not what the page shows. */
  exported?: () => Exported;
}

interface Exported {
  option: EChartsCoreOption;
  width: number;
  height: number;
}

const EXPORT_WIDTH = 1600;

export function Chart(props: Props) {
  const element = useRef<HTMLDivElement>(null);
  const chart = useRef<EChartsType | null>(null);
  const drawn = useRef<EChartsCoreOption | null>(null);
  const dark = isDark.value;

  useEffect(() => {
    if (!element.current) {
      return;
    }
    const made = echarts.init(element.current, null, { renderer: "canvas" });
    chart.current = made;
    made.setOption(withTheme(props.option, dark));
    drawn.current = props.option;
    const end = props.onReady?.(made);
    const observer = new ResizeObserver(([entry]) => {
      const size = entry?.contentRect;
      if (size && (size.width !== made.getWidth() || size.height !== made.getHeight())) {
        made.resize();
      }
    });
    observer.observe(element.current);
    return () => {
      observer.disconnect();
      end?.();
      made.dispose();
    };
  }, [dark]);

  useEffect(() => {
    // The first option is drawn by then, with the chart itself.
    if (drawn.current !== props.option) {
      chart.current?.setOption(withTheme(props.option, dark), { notMerge: true });
      drawn.current = props.option;
    }
  }, [props.option, dark]);

  return (
    <figure class="chart">
      <div
        ref={element}
        class="chart-canvas"
        style={{ height: `${props.height}px` }}
        role="img"
        aria-label={props.label}
      />
      <figcaption class="chart-downloads">
        <button type="button" class="quiet" onClick={() => saveSvg(props, dark)}>
          SVG
        </button>
        <button type="button" class="quiet" onClick={() => savePng(chart.current, props, dark)}>
          PNG
        </button>
        <span class="visually-hidden">{`${texts().common.download}: ${props.label}`}</span>
      </figcaption>
    </figure>
  );
}

/** The option with texts and lines in the colours of the page. */
export function withTheme(option: EChartsCoreOption, dark: boolean): EChartsCoreOption {
  const colours = chartColours(dark);
  return {
    backgroundColor: "transparent",
    color: [...colours.series],
    textStyle: { color: colours.text, fontFamily: "system-ui, sans-serif" },
    animation: false,
    // The page names its charts itself, in its own language.
    aria: { enabled: true, label: { enabled: false } },
    ...option,
  };
}

function saveSvg(props: Props, dark: boolean): void {
  const { option, width, height } = props.exported?.() ?? {
    option: props.option,
    width: EXPORT_WIDTH,
    height: props.height,
  };
  const apart = echarts.init(null, null, { renderer: "svg", ssr: true, width, height });
  apart.setOption({ ...withTheme(option, dark), backgroundColor: chartColours(dark).surface });
  const svg = apart.renderToSVGString();
  apart.dispose();
  saveBlob(new Blob([svg], { type: "image/svg+xml" }), `${fileStem(props.label)}.svg`);
}

function savePng(chart: EChartsType | null, props: Props, dark: boolean): void {
  const exported = props.exported?.();
  const apart = exported && drawApart(exported, dark);
  const address = (apart ?? chart)?.getDataURL({
    pixelRatio: 2,
    backgroundColor: chartColours(dark).surface,
  });
  apart?.dispose();
  if (address) {
    saveBlob(pngOf(address), `${fileStem(props.label)}.png`);
  }
}

function drawApart({ option, width, height }: Exported, dark: boolean): EChartsType {
  const apart = echarts.init(document.createElement("div"), null, {
    renderer: "canvas",
    width,
    height,
  });
  apart.setOption(withTheme(option, dark));
  return apart;
}

/** The security policy lets no page fetch a `data:` address, so it is decoded here. */
function pngOf(address: string): Blob {
  const binary = atob(address.slice(address.indexOf(",") + 1));
  return new Blob([Uint8Array.from(binary, (char) => char.charCodeAt(0))], { type: "image/png" });
}

function fileStem(label: string): string {
  return (
    label
      .replace(/[^\p{L}\p{N}]+/gu, "-")
      .replace(/^-+|-+$/g, "")
      .toLowerCase() || "chart"
  );
}
