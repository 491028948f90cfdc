--- A small transformer that really trains, made of the operator library's own kernels.
--
-- The layers are those of the architecture `gpt` with rotary positions, untied head, no
-- biases and no dropout; every operator of its list is one call here, forward and
-- backward, on the CPU back end, and every collective one MPI call. Data, tensor and
-- pipeline parallelism as Megatron lays them out (Narayanan et al. 2021).
local buffers = require "ett.validate_buffers"
local cpu = require "ett.cpu"
local sample = require "ett.sample"
local now, thread_seconds = sample.now, sample.thread_seconds

local validate_model = {}
local Trainer = {}
Trainer.__index = Trainer

--- Groups of this rank in a plan: tensor ranks are neighbours, then data, then pipeline, as ett
--- places them. { tp_rank, dp_rank, stage, tp_group, dp_group, pp_group }; no groups without a job.
function validate_model.groups(p, job)
  local rank = job and job.rank or 0
  local g = { tp_rank = rank % p.tp, dp_rank = rank // p.tp % p.dp, stage = rank // (p.tp * p.dp) }
  if job then
    g.tp_group = job.world:split(rank // p.tp, rank)
    g.dp_group = job.world:split(g.tp_rank + p.tp * g.stage, rank)
    g.pp_group = job.world:split(rank % (p.tp * p.dp), rank)
  end
  return g
end

--- Builds the trainer of one rank.
---@param given table hyper { layers, hidden, heads, vocab }, plan { tp, dp, pp, micro_batch,
--- micro_batches, seq }, seed, job (of ett.dist) when there are several ranks
function validate_model.new(given)
  local p = given.plan
  local self = setmetatable(validate_model.groups(p, given.job), Trainer)
  self.hyper, self.plan, self.seed, self.z = given.hyper, p, given.seed or 1, buffers.sizes(given.hyper, p)
  self:reset()
  self.layers = given.hyper.layers // p.pp
  self.first, self.last = self.stage == 0, self.stage == p.pp - 1
  buffers.parameters(self)
  buffers.activations(self)
  self.step_number = 0
  return self
end

--- Runs one operator and books its processor time under its library name and shape.
function Trainer:op(name, shape, pass, kind, dims, operands, scalars)
  local start = thread_seconds()
  cpu.run(kind, pass, dims, operands, scalars)
  local seconds = thread_seconds() - start
  local record = self:record(name, pass, 0)
  record.shape = shape
  record.seconds, record.calls = record.seconds + seconds, record.calls + 1
end

--- The record of an operator's pass, or of a collective of some bytes.
function Trainer:record(name, pass, bytes)
  local known = self.known[name]
  if not known then
    known = {}
    self.known[name] = known
  end
  local list = known[pass]
  if not list then
    list = {}
    known[pass] = list
  end
  local record = list[bytes]
  if not record then
    record = { name = name, pass = pass, seconds = 0.0, calls = 0 }
    list[bytes] = record
    self.records[("%s %s %s"):format(name, pass, bytes > 0 and bytes or "")] = record
    self.order[#self.order + 1] = record
  end
  return record
end

--- Books a collective: its wall time, and the processor time in it, which is as much when the
--- rank has a processor to itself: a rank that waits looks for the message all the time.
function Trainer:book(label, kind, bytes, ranks, start, processor)
  local record = self:record(label, kind, bytes)
  record.bytes, record.ranks = bytes, ranks
  record.seconds, record.calls = record.seconds + now() - start, record.calls + 1
  record.processor_seconds = (record.processor_seconds or 0.0) + thread_seconds() - processor
end

function Trainer:collective(kind, group, label, tensor, other)
  if not group or group:size() < 2 then return end
  local start, processor = now(), thread_seconds()
  group:run(kind, tensor, other)
  self:book(label, kind, 4 * math.max(#tensor, other and #other or 0), group:size(), start, processor)
end

function Trainer:linear(name, pass, out_features, in_features, operands)
  local m = self.z.tokens
  self:op(name, { tokens = m, in_features = in_features, out_features = out_features }, pass, "linear",
    { batch = 1, m = m, n = out_features, k = in_features }, operands)
end

function Trainer:layer_norm(pass, operands)
  local z = self.z
  self:op("layer_norm", { tokens = z.tokens, hidden = z.hidden }, pass, "layer_norm",
    { rows = z.tokens, cols = z.hidden }, operands)
end

function Trainer:residual(pass, a, b, out)
  local z = self.z
  self:op("residual_add", { tokens = z.tokens, hidden = z.hidden }, pass, "add",
    { rows = z.tokens, cols = z.hidden }, { a, b, out })
end

function Trainer:gelu(pass, operands)
  local z = self.z
  self:op("gelu", { tokens = z.tokens, width = z.ffn }, pass, "gelu", { rows = z.tokens, cols = z.ffn }, operands)
end

function Trainer:attention(pass, operands)
  local z, p = self.z, self.plan
  self:op("flash_attention", { batch = p.micro_batch, heads = z.heads, kv_heads = z.heads, seq_q = p.seq,
    seq_k = p.seq, head_dim = z.head_dim, causal = 1 }, pass, "attention", { batch = p.micro_batch, seq_q = p.seq,
    seq_k = p.seq, heads = z.heads, kv_heads = z.heads, head_dim = z.head_dim, visible = 2 }, operands)
end

function Trainer:rope(pass, tensor)
  local z, p = self.z, self.plan
  self:op("rope", { batch = p.micro_batch, seq = p.seq, heads = z.heads, kv_heads = z.heads, head_dim = z.head_dim,
    rotary_dim = z.head_dim }, pass, "rope", { batch = p.micro_batch, seq = p.seq, heads = z.heads,
    kv_heads = z.heads, head_dim = z.head_dim }, { tensor, self.table })
end

--- Forward of this stage for one micro-batch; input is the stream from the stage before.
function Trainer:forward(a, input)
  local z, s = self.z, self.s
  local embed = { rows = z.tokens, cols = z.hidden, vocab = z.vocab + 1 }
  if self.first then
    self:op("embedding", { tokens = z.tokens, vocab = z.vocab, hidden = z.hidden }, "forward", "embedding", embed,
      { a.ids, self.embedding.w, a.x })
    self:collective("all_reduce", self.tp_group, "tp", a.x)
  else
    a.x:copy(input)
  end
  local x = a.x
  for i, block in ipairs(self.blocks) do
    local l = a.layer[i]
    self:layer_norm("forward", { x, block.norm1.gain.w, block.norm1.bias.w, l.n1, l.mean1, l.rstd1 })
    self:linear("linear_qkv", "forward", 3 * z.width, z.hidden, { l.n1, block.qkv.w, l.qkv })
    self:rope("forward", l.qkv)
    self:attention("forward", { l.qkv, l.o, s.scratch })
    self:linear("linear_proj", "forward", z.hidden, z.width, { l.o, block.proj.w, s.branch })
    self:collective("all_reduce", self.tp_group, "tp", s.branch)
    self:residual("forward", x, s.branch, l.x1)
    self:layer_norm("forward", { l.x1, block.norm2.gain.w, block.norm2.bias.w, l.n2, l.mean2, l.rstd2 })
    self:linear("linear_up", "forward", z.ffn, z.hidden, { l.n2, block.up.w, l.u })
    self:gelu("forward", { l.u, l.g })
    self:linear("linear_down", "forward", z.hidden, z.ffn, { l.g, block.down.w, s.branch })
    self:collective("all_reduce", self.tp_group, "tp", s.branch)
    self:residual("forward", l.x1, s.branch, l.out)
    x = l.out
  end
  a.last_x = x
  if not self.last then return x end
  self:layer_norm("forward", { x, self.final.gain.w, self.final.bias.w, a.n, a.mean, a.rstd })
  self:linear("lm_head", "forward", z.vocab, z.hidden, { a.n, self.head.w, s.logits })
  self:op("cross_entropy", { tokens = z.tokens, vocab = z.vocab }, "forward", "cross_entropy",
    { rows = z.tokens, vocab = z.vocab }, { s.logits, a.targets, a.loss, a.lse })
  self:join_vocabulary(a)
  self.loss = self.loss + a.loss:sum() / z.tokens
  return nil
end

--- Puts the ranks' parts of the vocabulary together: log-sum-exp and the target's logit.
function Trainer:join_vocabulary(a)
  local tp, tokens = self.plan.tp, self.z.tokens
  if tp == 1 then return end
  local own, all = self.s.own, self.s.all_lse
  for i = 1, tokens do own:set(i, a.lse:get(i) - a.loss:get(i)) end -- the target's logit, or 0
  self:collective("all_gather", self.tp_group, "tp", all, a.lse)
  self:collective("all_reduce", self.tp_group, "tp", own)
  for i = 1, tokens do
    local top, sum = -math.huge, 0
    for r = 0, tp - 1 do top = math.max(top, all:get(r * tokens + i)) end
    for r = 0, tp - 1 do sum = sum + math.exp(all:get(r * tokens + i) - top) end
    local lse = top + math.log(sum)
    a.lse:set(i, lse)
    a.loss:set(i, lse - own:get(i))
  end
end

--- Backward of this stage; grad is the stream's gradient from the stage after. Returns the
--- gradient of this stage's input.
function Trainer:backward(a, grad)
  local z, s = self.z, self.s
  local dx = s.dx
  if self.last then
    self:op("cross_entropy", { tokens = z.tokens, vocab = z.vocab }, "backward", "cross_entropy",
      { rows = z.tokens, vocab = z.vocab }, { s.logits, a.targets, a.lse, s.dlogits },
      { 1 / (z.tokens * self.plan.micro_batches * self.plan.dp) })
    self:linear("lm_head", "backward", z.vocab, z.hidden, { a.n, self.head.w, s.dlogits, s.dn, self.head.g })
    self:collective("all_reduce", self.tp_group, "tp", s.dn)
    self:layer_norm("backward", { a.last_x, self.final.gain.w, s.dn, a.mean, a.rstd, dx, self.final.gain.g,
      self.final.bias.g })
  else
    dx:copy(grad)
  end
  for i = self.layers, 1, -1 do
    local l, block = a.layer[i], self.blocks[i]
    local x = i == 1 and a.x or a.layer[i - 1].out
    self:linear("linear_down", "backward", z.hidden, z.ffn, { l.g, block.down.w, dx, s.dg, block.down.g })
    self:gelu("backward", { l.u, s.dg, s.du })
    self:linear("linear_up", "backward", z.ffn, z.hidden, { l.n2, block.up.w, s.du, s.dn, block.up.g })
    self:collective("all_reduce", self.tp_group, "tp", s.dn)
    self:layer_norm("backward", { l.x1, block.norm2.gain.w, s.dn, l.mean2, l.rstd2, s.dbranch, block.norm2.gain.g,
      block.norm2.bias.g })
    self:residual("backward", dx, s.dbranch, s.dx1)
    self:linear("linear_proj", "backward", z.hidden, z.width, { l.o, block.proj.w, s.dx1, s.d_o, block.proj.g })
    self:attention("backward", { l.qkv, l.o, s.d_o, s.dqkv, s.scratch })
    self:rope("backward", s.dqkv)
    self:linear("linear_qkv", "backward", 3 * z.width, z.hidden, { l.n1, block.qkv.w, s.dqkv, s.dn, block.qkv.g })
    self:collective("all_reduce", self.tp_group, "tp", s.dn)
    self:layer_norm("backward", { x, block.norm1.gain.w, s.dn, l.mean1, l.rstd1, s.dbranch, block.norm1.gain.g,
      block.norm1.bias.g })
    self:residual("backward", s.dx1, s.dbranch, dx)
  end
  if self.first then
    self:op("embedding", { tokens = z.tokens, vocab = z.vocab, hidden = z.hidden }, "backward", "embedding",
      { rows = z.tokens, cols = z.hidden, vocab = z.vocab + 1 }, { a.ids, dx, self.embedding.g })
    if self.plan.tp > 1 then -- the row of foreign tokens stays zero
      self.embedding.g:view(z.vocab * z.hidden + 1, z.hidden):fill(0)
      self.embedding.w:view(z.vocab * z.hidden + 1, z.hidden):fill(0)
    end
  end
  return dx
end

--- Tokens of a micro-batch: sequences in which each token decides the next, so that there is
--- something to learn. The same for the ranks of a tensor group.
function Trainer:tokens(a, micro_batch)
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
  if self.first then a.ids:integers(ids) end
  if self.last then a.targets:integers(targets) end
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
  self:book("pp", "send_recv", 4 * #(tensor or receive), 2, start, processor)
end

--- One training step: every micro-batch forward and backward in the order of 1F1B, the
--- gradients summed over data-parallel ranks, Adam. Returns the mean loss on the last stage.
function Trainer:step()
  local p, kept = self.plan, self.kept
  self.step_number = self.step_number + 1
  self.loss = 0
  local warm = math.min(p.micro_batches, p.pp - self.stage - 1)
  local s = self.s
  s.grad_in = s.grad_in or sample.tensor(self.z.tokens * self.z.hidden)
  local function slot(i) return kept[(i - 1) % #kept + 1] end
  local function run_forward(i)
    local a = slot(i)
    self:tokens(a, i)
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
  self:op("optimizer", { params = self.parameter_count }, "update", "adam", { count = self.parameter_count },
    { self.weights, self.gradients, self.moment1, self.moment2 }, { 1e-3, 0.9, 0.95, 1e-8, 0.01, self.step_number })
  return self.loss / p.micro_batches
end

--- Forgets what was booked.
function Trainer:reset() self.records, self.order, self.known = {}, {}, {} end

--- Processor seconds beside the kernels: of calling an operator (the call, its dimensions, the booking),
--- and by operator of what the host does for each of its tokens: making them, and putting the log-sum-exp
--- of a split vocabulary together. Measured between products that drive the host's own
--- data out of the caches, as those of a step do.
---@return table { operator_seconds=, token_seconds = { embedding=, cross_entropy= } }
function validate_model.host_seconds()
  local t = sample.tensor
  local self = setmetatable({ z = { tokens = 128, hidden = 256, vocab = 512 }, stage = 0, tp_rank = 0, dp_rank = 0,
    seed = 1, step_number = 0, first = true, last = true, hyper = { vocab = 1024 },
    plan = { tp = 2, micro_batch = 2, seq = 64 } }, Trainer)
  local z = self.z
  local x, y, sum = t(z.tokens * z.hidden), t(z.tokens * 3 * z.hidden), t(z.tokens * z.hidden)
  self.s = { own = t(z.tokens), all_lse = t(2 * z.tokens) }
  local a = { ids = t(z.tokens), targets = t(z.tokens), lse = t(z.tokens), loss = t(z.tokens) }
  local weights = {}
  for i = 1, 24 do weights[i] = t(3 * z.hidden * z.hidden):normal(i, 0.02) end
  local calls, tokens, joins, rounds = {}, {}, {}, 60
  for i = 1, rounds do
    self:reset()
    local start = thread_seconds()
    for k = 0, 3 do
      self:linear("linear_qkv", "forward", 3 * z.hidden, z.hidden, { x, weights[(4 * i + k) % #weights + 1], y })
      self:residual("forward", x, sum, sum)
    end
    local stop, booked = thread_seconds(), 0.0
    for _, record in ipairs(self.order) do booked = booked + record.seconds end
    calls[i] = (stop - start - booked) / 8
    self:tokens(a, 1)
    local made = thread_seconds()
    self:join_vocabulary(a) -- without a group: no messages
    tokens[i], joins[i] = (made - stop) / z.tokens, (thread_seconds() - made) / z.tokens
  end
  return { operator_seconds = sample.stats(calls).median, token_seconds = { embedding = sample.stats(tokens).median,
    cross_entropy = sample.stats(joins).median } }
end

return validate_model
