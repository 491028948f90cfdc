#!/usr/bin/env -S ett run
--- Ledger: a gated feed-forward layer (GLU), split over its inner width.
local ledger = require "ett.ledger"

local function gated_feed_forward(o)
  local L = ledger.new()
  local DATA, TENSOR = L:axis("DATA", o.p_data), L:axis("TENSOR", o.p_tensor)
  local SAMPLE = L:dimension("SAMPLE", o.batch, { axis = DATA })
  local TOKEN = L:dimension("TOKEN", o.seq)
  local D_MODEL = L:dimension("D_MODEL", o.d_model, { autoreduce = true })
  local D_FFN = L:dimension("D_FFN", o.d_ffn, { axis = TENSOR, autoreduce = true })

  local x = L:tensor("x", { SAMPLE, TOKEN, D_MODEL })
  local function weight(name) -- each replica holds a part; a batch begins with a gather
    L:label(name)
    return L:tensor(name, { D_MODEL, D_FFN }, { scattered = { DATA } }):broadcast()
  end
  local up, gate, down = weight "W_up", weight "W_gate", weight "W_down"
  L:label("up")
  local inner = x:dot(up)
  if o.gated then
    L:label("gate")
    local open = x:dot(gate)
    L:label("product")
    inner = inner:multiply(open)
  end
  L:label("down")
  inner:dot(down)
  return L
end

local text = require("ett.ledger.report").text(gated_feed_forward { p_data = 4, p_tensor = 8, batch = 16, seq = 2048,
  d_model = 4096, d_ffn = 14336, gated = true })
print(text)
