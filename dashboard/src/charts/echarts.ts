/** The parts of ECharts that the charts are made of. */

import { BarChart, CustomChart, GraphChart, LineChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent,
  AxisPointerComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  MarkPointComponent,
  TooltipComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";

echarts.use([
  AriaComponent,
  AxisPointerComponent,
  BarChart,
  CanvasRenderer,
  CustomChart,
  DataZoomComponent,
  GraphChart,
  GridComponent,
  LegendComponent,
  LineChart,
  MarkAreaComponent,
  MarkLineComponent,
  MarkPointComponent,
  ScatterChart,
  SVGRenderer,
  TooltipComponent,
]);

export { echarts };
