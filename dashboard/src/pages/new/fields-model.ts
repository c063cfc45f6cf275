/** Fields of a model, and of the part of it that a sharding plan is for. */

import { type Field, field, hasPreset, type Section } from "./field";
import type { JsonObject } from "./json-text";

function modelSizes(at: string): Field[] {
  return [
    field(`${at}.layers`, "whole", "model.layers"),
    field(`${at}.hidden_size`, "whole", "model.hidden_size"),
    field(`${at}.heads`, "whole", "model.heads"),
    field(`${at}.vocabulary`, "whole", "model.vocabulary"),
  ];
}

function modelDetails(at: string): Field[] {
  return [
    field(`${at}.kv_heads`, "whole", "model.kv_heads"),
    field(`${at}.head_dim`, "whole", "model.head_dim"),
    field(`${at}.ffn_hidden_size`, "whole", "model.ffn_hidden_size"),
    field(`${at}.gated`, "flag", "model.gated", { standard: "false" }),
    field(`${at}.experts`, "whole", "model.experts"),
    field(`${at}.experts_per_token`, "whole", "model.experts_per_token"),
    field(`${at}.tied_embeddings`, "flag", "model.tied_embeddings"),
    field(`${at}.norm`, "choice", "model.norm", { choices: ["layernorm", "rmsnorm"] }),
    field(`${at}.norm_placement`, "choice", "model.norm_placement", { choices: ["pre", "post"] }),
    field(`${at}.biases`, "flag", "model.biases"),
    field(`${at}.qkv_bias`, "flag", "model.qkv_bias"),
    field(`${at}.qk_norm`, "flag", "model.qk_norm", { standard: "false" }),
    field(`${at}.position_embeddings`, "choice", "model.position_embeddings", {
      choices: ["learned", "rotary", "none"],
    }),
    field(`${at}.max_positions`, "whole", "model.max_positions"),
    field(`${at}.token_types`, "whole", "model.token_types", { standard: "0" }),
    field(`${at}.pooler`, "flag", "model.pooler", { standard: "false" }),
    field(`${at}.architecture`, "choice", "model.architecture", {
      choices: ["decoder", "encoder"],
    }),
    field(`${at}.name`, "text", "model.name"),
  ];
}

export function model(body: JsonObject): Section {
  const at = "model";
  const preset = field(`${at}.preset`, "model", "model.preset");
  const sizes = modelSizes(at);
  const sequence = field(`${at}.sequence`, "whole", "model.sequence", { unit: "tokens" });
  return hasPreset(body, at)
    ? { title: "model", main: [preset, sequence], more: [...sizes, ...modelDetails(at)] }
    : { title: "model", main: [preset, ...sizes, sequence], more: modelDetails(at) };
}

export function transformer(body: JsonObject): Section {
  const at = "transformer";
  const [layers, ...sizes] = modelSizes(at) as [Field, ...Field[]];
  const main = [
    field(`${at}.preset`, "model", "model.preset"),
    { ...layers, text: "transformer.layers" as const, standard: "1" },
    field(`${at}.batch`, "whole", "transformer.batch", { unit: "samples" }),
    field(`${at}.sequence`, "whole", "model.sequence", { unit: "tokens" }),
    field(`${at}.embeddings`, "flag", "transformer.embeddings", { standard: "false" }),
  ];
  return hasPreset(body, at)
    ? { title: "transformer", main, more: [...sizes, ...modelDetails(at)] }
    : { title: "transformer", main: [...main, ...sizes], more: modelDetails(at) };
}
