#!/usr/bin/env -S ett run
--- Ledger: attention with a causal mask, for kernels that skip masked scores. They compute l (l + 1) / 2 of l x l
-- scores: a meter has this fraction as its multiplier.
local ledger = require "ett.ledger"

local function causal_attention(o)
  local L = ledger.new()
  local DATA, TENSOR = L:axis("DATA", o.p_data), L:axis("TENSOR", o.p_tensor)
  local SAMPLE = L:dimension("SAMPLE", o.batch, { axis = DATA })
  local TOKEN = L:dimension("TOKEN", o.seq)
  local READ = L:dimension("READ_TOKEN", o.seq, { autoreduce = true })
  local HEAD = L:dimension("HEAD", o.heads, { axis = TENSOR })
  local D_HEAD = L:dimension("D_HEAD", o.d_head, { autoreduce = true })

  local q = L:tensor("q", { SAMPLE, TOKEN, HEAD, D_HEAD })
  local k, v = L:tensor("k", { SAMPLE, READ, HEAD, D_HEAD }), L:tensor("v", { SAMPLE, READ, HEAD, D_HEAD })
  L:meter("seen scores", o.causal and (o.seq + 1) / (2 * o.seq) or 1, function()
    L:label("scores")
    local scores = q:dot(k)
    L:label("softmax")
    scores = scores:multiply(scores:all_reduce(READ))
    L:label("mix")
    scores:dot(v)
  end)
  return L
end

local text = require("ett.ledger.report").text(causal_attention {
  p_data = 4, p_tensor = 8, batch = 16, seq = 2048, heads = 32,
  d_head = 128, causal = true })
print(text)
