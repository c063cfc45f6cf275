import type { report as english } from "../en/report";

export const report: typeof english = {
  origin: (version, at) => `Loadmaster ${version} 的报告,写于 ${at}`,
  notIncluded: "写这份报告时没有包含该调度;可用 --with-classic 加入。",
};
