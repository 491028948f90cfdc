#!/usr/bin/env -S ett run
--- Ledger: grouped-query attention, in which a group of query heads shares one key-value head.
-- Tensor parallelism splits the key-value heads; a group stays on one rank, so no keys or values are sent for its
-- queries.
local ledger = require "ett.ledger"

local function grouped_query_attention(o)
  local L = ledger.new()
  local DATA, TENSOR = L:axis("DATA", o.p_data), L:axis("TENSOR", o.p_tensor)
  local SAMPLE = L:dimension("SAMPLE", o.batch, { axis = DATA })
  local TOKEN = L:dimension("TOKEN", o.seq)
  local READ = L:dimension("READ_TOKEN", o.seq, { autoreduce = true })
  local D_MODEL = L:dimension("D_MODEL", o.d_model, { autoreduce = true })
  local KV_HEAD = L:dimension("KV_HEAD", o.kv_heads, { axis = TENSOR })
  local GROUP = L:dimension("GROUP", o.heads / o.kv_heads)
  local D_HEAD = L:dimension("D_HEAD", o.d_head, { autoreduce = true })

  local x = L:tensor("x", { SAMPLE, TOKEN, D_MODEL })
  local read = L:tensor("x as read", { SAMPLE, READ, D_MODEL }) -- the same tokens for keys and values
  L:label("queries")
  local q = x:dot(L:tensor("W_q", { D_MODEL, KV_HEAD, GROUP, D_HEAD }))
  L:label("keys")
  local k = read:dot(L:tensor("W_k", { D_MODEL, KV_HEAD, D_HEAD }))
  L:label("values")
  local v = read:dot(L:tensor("W_v", { D_MODEL, KV_HEAD, D_HEAD }))
  L:label("scores")
  local scores = q:dot(k)
  L:label("softmax")
  scores = scores:multiply(scores:all_reduce(READ))
  L:label("mix")
  local mixed = scores:dot(v)
  L:label("output")
  mixed:dot(L:tensor("W_o", { D_MODEL, KV_HEAD, GROUP, D_HEAD })):all_reduce(GROUP):all_reduce(KV_HEAD)
  return L
end

local text = require("ett.ledger.report").text(grouped_query_attention {
  p_data = 4, p_tensor = 8, batch = 16, seq = 2048,
  d_model = 4096, heads = 32, kv_heads = 8, d_head = 128 })
print(text)
