import { afterEach, describe, expect, it } from "vitest";
import { setLanguage } from "../src/i18n";
import { comparisonReason, phaseName, ruleWhy, serviceName } from "../src/i18n/service-text";

afterEach(() => setLanguage("en"));

describe("the service's words", () => {
  it("are in the language that is shown, with the numbers that are in them", () => {
    setLanguage("zh");
    expect(serviceName("bound", "critical path")).toBe("关键路径");
    expect(serviceName("placement", "interleaved_4")).toBe("交错放置,每设备 4 段");
    expect(serviceName("foundBy", "list schedule 2 within memory")).toBe("显存内的列表调度 2");
    expect(serviceName("baseline", "Megatron-LM (tensor 8, data 2)")).toBe(
      "Megatron-LM(张量并行 8,数据并行 2)",
    );
    expect(phaseName("local search (v_shape)")).toBe("局部搜索 (V 形)");
    expect(ruleWhy("batch", "…")).toBe("数据并行度不能整除全局批大小。");
  });

  it("stay as they came where there are none for them", () => {
    setLanguage("zh");
    for (const word of ["1F1B", "ZB-H1", "a new bound", "constructor", ""]) {
      expect(serviceName("bound", word)).toBe(word);
      expect(serviceName("foundBy", word)).toBe(word);
    }
    expect(phaseName("front")).toBe("front");
    expect(ruleWhy("a new rule", "why it drops")).toBe("why it drops");
  });

  it("are made of the figures where there are any", () => {
    const row = {
      reason: "out of memory: device 0 needs 2147483648 bytes and has 1073741824",
      shortage: { device: 0, host: null, needed_bytes: 2 ** 31, limit_bytes: 2 ** 30 },
    };
    expect(comparisonReason(row)).toBe(
      "out of memory: device 0 needs 2.000 GiB and has 1.000 GiB, 1.000 GiB too little",
    );
    setLanguage("zh");
    expect(comparisonReason(row)).toBe(
      "显存不足:设备 0 需要 2.000 GiB,只有 1.000 GiB,缺少 1.000 GiB",
    );
    expect(comparisonReason({ reason: row.reason })).toBe(row.reason);
    expect(comparisonReason({ reason: "no stage can offload anything", shortage: null })).toBe(
      "没有可卸载的阶段",
    );
    expect(comparisonReason({ reason: null })).toBeNull();
  });
});
