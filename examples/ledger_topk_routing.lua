#!/usr/bin/env -S ett run
--- Ledger: experts with top-k routing; each token visits k of e experts and comes back.
-- Moving along the expert axis is a broadcast that rotates the EXPERT dimension: of the words,
-- 1 - 1/p_exp leave their rank. `capacity` is the room of an expert, relative to an even split.
local ledger = require "ett.ledger"

local function top_k_routing(o)
  local L = ledger.new()
  local DATA, EXP, TENSOR = L:axis("DATA", o.p_data), L:axis("EXP", o.p_exp), L:axis("TENSOR", o.p_tensor)
  local SAMPLE = L:dimension("SAMPLE", o.batch, { axis = DATA })
  local SHARE = L:dimension("TOKEN_SHARE", o.experts, { axis = EXP }) -- tokens split over the expert axis
  local TOKEN = L:dimension("TOKEN", o.seq / o.experts)
  local CHOICE = L:dimension("CHOICE", o.experts)
  local EXPERT = L:dimension("EXPERT", o.experts, { axis = EXP })
  local SLOT = L:dimension("SLOT", o.capacity * o.top_k * o.seq / o.experts)
  local D_MODEL = L:dimension("D_MODEL", o.d_model, { autoreduce = true })
  local D_FFN = L:dimension("D_FFN", o.d_ffn, { axis = TENSOR, autoreduce = true })

  local x = L:tensor("x", { SAMPLE, SHARE, TOKEN, D_MODEL })
  L:label("router")
  x:dot(L:tensor("W_router", { D_MODEL, CHOICE }))
  L:label("dispatch")
  local visiting = L:tensor("dispatched", { SAMPLE, EXPERT, SLOT, D_MODEL }):broadcast { rotate = { EXPERT } }
  L:label("expert up")
  local inner = visiting:dot(L:tensor("W_up", { EXPERT, D_MODEL, D_FFN }))
  L:label("expert down")
  local out = inner:dot(L:tensor("W_down", { EXPERT, D_MODEL, D_FFN }))
  L:label("combine")
  out:broadcast { rotate = { EXPERT } }
  return L
end

local text = require("ett.ledger.report").text(top_k_routing {
  p_data = 4, p_exp = 8, p_tensor = 2, batch = 16, seq = 4096,
  experts = 8, top_k = 2, capacity = 1.25, d_model = 4096, d_ffn = 14336 })
print(text)
