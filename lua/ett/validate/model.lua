--- A small transformer that trains for real, built from the operators of the library.
--
-- Its layers are those of the architecture `gpt` with rotary positions, an untied head, no biases and no dropout.
-- Ranks are placed as in Megatron-LM (Narayanan et al. 2021). A back end runs it; with t the trainer it has:
--   tensor(count, dtype?)       a tensor of activations; dtype "fp32": of statistics
--   hold(t, list)               sets w and g of each parameter of the list, t.parameter_count and t.optimizer_state
--   attention_state(t), entropy_state(t), rotation(t)
--                               tensors that attention and cross entropy keep for backward; the table of angles
--   inputs(t, a), feed(t, a, i) make the tokens, targets and losses of slot a; load micro-batch i into it
--   run(t, name, shape, pass, operands)    one pass of an operator; operands by name
--   end_group(t, group)         called when the gradients of a layer are complete
--   add_loss(t, a), step(t)     adds the loss of a micro-batch; one training step through t:walk()
local sample = require "ett.sample"
local now, thread_seconds = sample.now, sample.thread_seconds

local model = {}
local Trainer = {}
Trainer.__index = Trainer
model.Trainer = Trainer

--- Groups of this rank in a plan, placed as ett places them: tensor ranks are neighbours, then data, then pipeline.
---@return table { tp_rank, dp_rank, stage, tp_group, dp_group, pp_group }; no groups without a job
function model.groups(p, job)
  local rank = job and job.rank or 0
  local g = { tp_rank = rank % p.tp, dp_rank = rank // p.tp % p.dp, stage = rank // (p.tp * p.dp) }
  if job then
    g.tp_group = job.world:split(rank // p.tp, rank)
    g.dp_group = job.world:split(g.tp_rank + p.tp * g.stage, rank)
    g.pp_group = job.world:split(rank % (p.tp * p.dp), rank)
  end
  return g
end

--- Shape of each operator, in the fields of its schema, on a rank of sizes z.
function model.shapes(z, p)
  local function linear(from, to) return { tokens = z.tokens, in_features = from, out_features = to } end
  local rows = { tokens = z.tokens, hidden = z.hidden }
  return {
    embedding = { tokens = z.tokens, vocab = z.vocab, hidden = z.hidden }, layer_norm = rows, residual_add = rows,
    linear_qkv = linear(z.hidden, 3 * z.width), linear_proj = linear(z.width, z.hidden),
    linear_up = linear(z.hidden, z.ffn), linear_down = linear(z.ffn, z.hidden), lm_head = linear(z.hidden, z.vocab),
    rope = { batch = p.micro_batch, seq = p.seq, heads = z.heads, kv_heads = z.heads, head_dim = z.head_dim,
      rotary_dim = z.head_dim },
    flash_attention = { batch = p.micro_batch, heads = z.heads, kv_heads = z.heads, seq_q = p.seq, seq_k = p.seq,
      head_dim = z.head_dim, causal = 1 },
    gelu = { tokens = z.tokens, width = z.ffn }, cross_entropy = { tokens = z.tokens, vocab = z.vocab },
  }
end

function model.sizes(h, p)
  return { tokens = p.micro_batch * p.seq, hidden = h.hidden, heads = h.heads // p.tp, width = h.hidden // p.tp,
    head_dim = h.hidden // h.heads, ffn = 4 * h.hidden // p.tp, vocab = h.vocab // p.tp }
end

--- Lists the parameters of this rank for the back end: { count, group (one table a layer), deviation and seed of
--- normal weights | value of constant ones }.
local function list_parameters(self)
  local z, h = self.z, self.hyper
  local list, seed, group = {}, self.seed * 1000 + self.stage * 100, nil
  local function both(count, deviation)
    seed = seed + 1
    local entry = { count = count, group = group, deviation = deviation,
      seed = seed + (deviation and 7919 * (1 + self.tp_rank) or 0), value = not deviation and 1 or nil }
    list[#list + 1] = entry
    return entry
  end
  local function norm()
    local pair = { gain = both(h.hidden), bias = both(h.hidden) }
    pair.bias.value = 0
    return pair
  end
  local deviation = 0.02
  local scaled = deviation / math.sqrt(2 * h.layers) -- as in GPT-2, for projections into the residual stream
  if self.first then
    group = {}
    self.embedding = both((z.vocab + self.foreign) * h.hidden, deviation)
  end
  self.blocks = {}
  for i = 1, self.layers do
    group = {}
    self.blocks[i] = { norm1 = norm(), qkv = both(3 * z.width * h.hidden, deviation),
      proj = both(z.width * h.hidden, scaled), norm2 = norm(),
      up = both(z.ffn * h.hidden, deviation), down = both(z.ffn * h.hidden, scaled) }
  end
  if self.last then
    group = {}
    self.final = norm()
    self.head = both(z.vocab * h.hidden, deviation)
  end
  self.backend:hold(self, list)
end

--- Makes the tensors that each micro-batch keeps for backward (self.kept) and the scratch that all share (self.s).
local function make_activations(self)
  local z, b, p = self.z, self.backend, self.plan
  local function t(width) return b:tensor(z.tokens * width) end
  local function stream() return t(z.hidden) end
  local function statistic() return b:tensor(z.tokens, "fp32") end
  local function norm_state() return { mean = statistic(), inverse = statistic() } end
  local function slot()
    local a = { x = stream(), layer = {} }
    for i = 1, self.layers do
      a.layer[i] = { n1 = stream(), state1 = norm_state(), qkv = t(3 * z.width), o = t(z.width),
        attention = b:attention_state(self), x1 = stream(), n2 = stream(), state2 = norm_state(), u = t(z.ffn),
        g = t(z.ffn), out = stream() }
    end
    if self.last then a.n, a.state, a.entropy = stream(), norm_state(), b:entropy_state(self) end
    b:inputs(self, a)
    return a
  end
  self.kept = {}
  for i = 1, math.min(p.micro_batches, p.pp - self.stage) do self.kept[i] = slot() end -- as many as 1F1B has in flight
  local s = { branch = stream(), dx = stream(), dx1 = stream(), dn = stream(), dbranch = stream(), dg = t(z.ffn),
    du = t(z.ffn), d_o = t(z.width), dqkv = t(3 * z.width) }
  self.s = s
  if p.pp > 1 then s.incoming, s.grad_in = stream(), stream() end
  if self.last then
    s.logits, s.dlogits = t(z.vocab), t(z.vocab)
    if p.tp > 1 then s.top, s.target, s.sum = statistic(), statistic(), statistic() end
  end
  self.rotation = b:rotation(self)
end

--- Angle by which rotary embedding turns a pair of elements; position and pair count from 0.
function model.angle(position, pair, head_dim) return position * 10000 ^ (-2 * pair / head_dim) end

--- Builds the trainer of one rank.
---@param given table hyper { layers, hidden, heads, vocab }, plan { tp, dp, pp, micro_batch, micro_batches, seq }, seed
--- (default 1), backend, job (of ett.dist) when there are several ranks
function model.new(given)
  local p = given.plan
  local self = setmetatable(model.groups(p, given.job), Trainer)
  self.hyper, self.plan, self.seed, self.z = given.hyper, p, given.seed or 1, model.sizes(given.hyper, p)
  self:reset()
  self.layers = given.hyper.layers // p.pp
  self.first, self.last = self.stage == 0, self.stage == p.pp - 1
  self.foreign = p.tp > 1 and 1 or 0 -- rows for the tokens of other tensor ranks
  self.shapes = model.shapes(self.z, p)
  self.backend = given.backend
  list_parameters(self)
  self.shapes.optimizer = { params = self.parameter_count }
  make_activations(self)
  self.step_number = 0
  return self
end

--- Runs one pass of an operator. The back end records it under its name and shape.
function Trainer:op(name, pass, operands) self.backend:run(self, name, self.shapes[name], pass, operands) end

--- The record of one pass of an operator, or of a collective of some bytes.
function Trainer:record(name, pass, bytes)
  local key = bytes == 0 and name .. " " .. pass or ("%s %s %d"):format(name, pass, bytes)
  local record = self.records[key]
  if not record then
    record = { name = name, pass = pass, seconds = 0.0, calls = 0 }
    self.records[key], self.order[#self.order + 1] = record, record
  end
  return record
end

--- Records a collective: its wall time and its processor time. Both are equal when the rank has a processor to itself,
--- because a waiting rank polls.
function Trainer:record_collective(label, kind, bytes, ranks, start, processor)
  local record = self:record(label, kind, bytes)
  record.bytes, record.ranks = bytes, ranks
  record.seconds, record.calls = record.seconds + now() - start, record.calls + 1
  record.processor_seconds = (record.processor_seconds or 0.0) + thread_seconds() - processor
end

--- Runs and records a collective.
---@param kind string recorded name
---@param run string? what runs, where it differs from kind
function Trainer:collective(kind, group, label, tensor, other, run)
  if not group or group:size() < 2 then return end
  local start, processor = now(), thread_seconds()
  group:run(run or kind, tensor, other)
  self:record_collective(label, kind, 4 * math.max(#tensor, other and #other or 0), group:size(), start, processor)
end

--- Norm of x; `state` keeps its statistics for backward.
function Trainer:norm(weights, x, y, state)
  self:op("layer_norm", "forward", { x = x, gain = weights.gain.w, bias = weights.bias.w, y = y, mean = state.mean,
    inverse = state.inverse })
end

function Trainer:norm_backward(weights, x, dy, dx, state)
  self:op("layer_norm", "backward", { x = x, gain = weights.gain.w, dy = dy, mean = state.mean, inverse = state.inverse,
    dx = dx, dgain = weights.gain.g, dbias = weights.bias.g })
end

--- Sums a tensor over the tensor ranks.
function Trainer:reduce_tp(tensor) self:collective("all_reduce", self.tp_group, "tp", tensor) end

--- Forward pass of this stage for one micro-batch.
---@param input tensor? residual stream from the stage before
function Trainer:forward(a, input)
  local s = self.s
  if self.first then
    self:op("embedding", "forward", { ids = a.ids, table = self.embedding.w, out = a.x })
    self:reduce_tp(a.x)
  else
    a.x:copy(input)
  end
  local x = a.x
  for i, block in ipairs(self.blocks) do
    local l = a.layer[i]
    self:norm(block.norm1, x, l.n1, l.state1)
    self:op("linear_qkv", "forward", { x = l.n1, w = block.qkv.w, y = l.qkv })
    self:op("rope", "forward", { x = l.qkv, table = self.rotation })
    self:op("flash_attention", "forward", { qkv = l.qkv, out = l.o, kept = l.attention })
    self:op("linear_proj", "forward", { x = l.o, w = block.proj.w, y = s.branch })
    self:reduce_tp(s.branch)
    self:op("residual_add", "forward", { a = x, b = s.branch, sum = l.x1 })
    self:norm(block.norm2, l.x1, l.n2, l.state2)
    self:op("linear_up", "forward", { x = l.n2, w = block.up.w, y = l.u })
    self:op("gelu", "forward", { x = l.u, y = l.g })
    self:op("linear_down", "forward", { x = l.g, w = block.down.w, y = s.branch })
    self:reduce_tp(s.branch)
    self:op("residual_add", "forward", { a = l.x1, b = s.branch, sum = l.out })
    x = l.out
  end
  a.last_x = x
  if not self.last then return x end
  self:norm(self.final, x, a.n, a.state)
  self:op("lm_head", "forward", { x = a.n, w = self.head.w, y = s.logits })
  self:op("cross_entropy", "forward", { logits = s.logits, target = a.targets, loss = a.loss, kept = a.entropy })
  self:join_vocabulary(a)
  self.backend:add_loss(self, a)
  return nil
end

--- Joins the tensor ranks' parts of the vocabulary by the three reductions of Megatron-LM's vocabulary-parallel cross
--- entropy: largest logit, target's logit, sum of exponentials.
function Trainer:join_vocabulary(a)
  local tp, tokens = self.plan.tp, self.z.tokens
  if tp == 1 then return end
  local top, target, sum = self.s.top, self.s.target, self.s.sum
  for i = 1, tokens do
    top:set(i, a.entropy:get(i))
    target:set(i, a.entropy:get(i) - a.loss:get(i)) -- the target's logit, or 0
  end
  self:collective("all_reduce", self.tp_group, "tp", top, nil, "all_reduce_max")
  self:reduce_tp(target)
  for i = 1, tokens do sum:set(i, math.exp(a.entropy:get(i) - top:get(i))) end
  self:reduce_tp(sum)
  for i = 1, tokens do
    local lse = top:get(i) + math.log(sum:get(i))
    a.entropy:set(i, lse)
    a.loss:set(i, lse - target:get(i))
  end
end

--- Weight of one token in the gradient of a step's mean loss.
function Trainer:token_share() return 1 / (self.z.tokens * self.plan.micro_batches * self.plan.dp) end

--- Backward pass of this stage.
---@param grad tensor? gradient of the residual stream from the stage after
---@return tensor gradient of this stage's input
function Trainer:backward(a, grad)
  local z, s, b = self.z, self.s, self.backend
  local dx = s.dx
  if self.last then
    self:op("cross_entropy", "backward", { logits = s.logits, target = a.targets, kept = a.entropy,
      dlogits = s.dlogits })
    self:op("lm_head", "backward", { x = a.n, w = self.head.w, dy = s.dlogits, dx = s.dn, dw = self.head.g })
    self:reduce_tp(s.dn)
    self:norm_backward(self.final, a.last_x, s.dn, dx, a.state)
    b:end_group(self, self.head.group)
  else
    dx:copy(grad)
  end
  for i = self.layers, 1, -1 do
    local l, block = a.layer[i], self.blocks[i]
    local x = i == 1 and a.x or a.layer[i - 1].out
    self:op("linear_down", "backward", { x = l.g, w = block.down.w, dy = dx, dx = s.dg, dw = block.down.g })
    self:op("gelu", "backward", { x = l.u, dy = s.dg, dx = s.du })
    self:op("linear_up", "backward", { x = l.n2, w = block.up.w, dy = s.du, dx = s.dn, dw = block.up.g })
    self:reduce_tp(s.dn)
    self:norm_backward(block.norm2, l.x1, s.dn, s.dbranch, l.state2)
    self:op("residual_add", "backward", { a = dx, b = s.dbranch, sum = s.dx1 })
    self:op("linear_proj", "backward", { x = l.o, w = block.proj.w, dy = s.dx1, dx = s.d_o, dw = block.proj.g })
    self:op("flash_attention", "backward", { qkv = l.qkv, out = l.o, dout = s.d_o, dqkv = s.dqkv, kept = l.attention })
    self:op("rope", "backward", { x = s.dqkv, table = self.rotation })
    self:op("linear_qkv", "backward", { x = l.n1, w = block.qkv.w, dy = s.dqkv, dx = s.dn, dw = block.qkv.g })
    self:reduce_tp(s.dn)
    self:norm_backward(block.norm1, x, s.dn, s.dbranch, l.state1)
    self:op("residual_add", "backward", { a = s.dx1, b = s.dbranch, sum = dx })
    b:end_group(self, block.qkv.group)
  end
  if self.first then
    self:op("embedding", "backward", { ids = a.ids, dy = dx, dtable = self.embedding.g })
    if self.foreign > 0 then -- the row of other ranks' tokens stays zero
      self.embedding.g:view(z.vocab * z.hidden + 1, z.hidden):fill(0)
      self.embedding.w:view(z.vocab * z.hidden + 1, z.hidden):fill(0)
    end
    b:end_group(self, self.embedding.group)
  end
  return dx
end

--- Tokens and targets of a micro-batch, lists of integers. Each token determines the next, so the loss can fall.
--- All ranks of a tensor group get the same sequences.
function Trainer:tokens(micro_batch)
  local z, p, vocab = self.z, self.plan, self.hyper.vocab
  local ids, targets = {}, {}
  local base = self.tp_rank * z.vocab
  local state = (self.step_number * 131 + micro_batch * 17 + self.dp_rank * 7 + self.seed) % 1009
  local span = math.min(vocab, 97)
  for b = 1, p.micro_batch do
    local token = (state * 31 + b * 13) % span
    for position = 1, p.seq do
      local following = (token * 5 + 3) % span
      local at = (b - 1) * p.seq + position
      local mine, next_mine = token - base, following - base
      ids[at] = mine >= 0 and mine < z.vocab and mine or z.vocab
      targets[at] = next_mine >= 0 and next_mine < z.vocab and next_mine or z.vocab
      token = following
    end
  end
  return ids, targets
end

function Trainer:send(direction, tensor, receive)
  local start, processor = now(), thread_seconds()
  local other = self.stage + direction
  if tensor and receive then
    self.pp_group:exchange(tensor, receive, other)
  elseif tensor then
    self.pp_group:send(tensor, other)
  else
    self.pp_group:receive(receive, other)
  end
  self:record_collective("pp", "send_recv", 4 * #(tensor or receive), 2, start, processor)
end

--- Runs one training step. Returns the mean loss, on the last stage.
function Trainer:step()
  self.step_number = self.step_number + 1
  return self.backend:step(self)
end

--- The work of a step: all micro-batches forward and backward in 1F1B order, the sum of gradients over data-parallel
--- ranks, Adam.
function Trainer:walk()
  local p, kept, s = self.plan, self.kept, self.s
  local warm = math.min(p.micro_batches, p.pp - self.stage - 1)
  local function slot(i) return kept[(i - 1) % #kept + 1] end
  local function run_forward(i)
    local a = slot(i)
    self.backend:feed(self, a, i)
    return self:forward(a, s.incoming)
  end
  for i = 1, warm do
    if not self.first then self:send(-1, nil, s.incoming) end
    local out = run_forward(i)
    self:send(1, out)
  end
  local steady = p.micro_batches - warm
  if steady > 0 and not self.first then self:send(-1, nil, s.incoming) end
  for i = 1, steady do
    local out = run_forward(warm + i)
    if not self.last then self:send(1, out, s.grad_in) end
    local dx = self:backward(slot(i), s.grad_in)
    if not self.first then
      if i < steady then self:send(-1, dx, s.incoming) else self:send(-1, dx) end
    end
  end
  for i = steady + 1, p.micro_batches do
    if not self.last then self:send(1, nil, s.grad_in) end
    local dx = self:backward(slot(i), s.grad_in)
    if not self.first then self:send(-1, dx) end
  end
  self:collective("all_reduce", self.dp_group, "dp", self.gradients)
  self:op("optimizer", "update", self.optimizer_state)
end

function Trainer:reset() self.records, self.order = {}, {} end

return model
