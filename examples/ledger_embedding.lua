#!/usr/bin/env -S ett run
--- Ledger: embedding and output layer, both split over the vocabulary.
-- A lookup has no products: each rank has the rows of its part and zeros elsewhere, and the parts are summed. The loss
-- needs two numbers per token (greatest logit, sum of exponentials) from all ranks.
local ledger = require "ett.ledger"

local function embedding_and_logits(o)
  local L = ledger.new()
  local DATA, TENSOR = L:axis("DATA", o.p_data), L:axis("TENSOR", o.p_tensor)
  local SAMPLE = L:dimension("SAMPLE", o.batch, { axis = DATA })
  local TOKEN = L:dimension("TOKEN", o.seq)
  local D_MODEL = L:dimension("D_MODEL", o.d_model, { autoreduce = true })
  local VOCAB = L:dimension("VOCAB", o.vocab, { axis = TENSOR, autoreduce = true })
  local PART = L:dimension("VOCAB_PART", o.p_tensor, { axis = TENSOR })

  L:label("embedding")
  L:tensor("looked up", { SAMPLE, TOKEN, D_MODEL, PART }):all_reduce(PART)
  L:label("logits")
  local logits = L:tensor("x", { SAMPLE, TOKEN, D_MODEL }):dot(L:tensor("W_vocab", { D_MODEL, VOCAB }))
  L:label("greatest logit")
  logits:all_reduce(VOCAB)
  L:label("sum of exponentials")
  logits:all_reduce(VOCAB)
  return L
end

local text = require("ett.ledger.report").text(embedding_and_logits { p_data = 4, p_tensor = 8, batch = 16, seq = 2048,
  d_model = 4096, vocab = 128256 })
print(text)
