--- Draws one batch in three dimensions: matrix products and communication.
--
-- The axes are model width x layers, hidden width x layers, and the batch (replicas and microbatches). Layers of two
-- matrices form a staircase. A layer multiplies x (batch x model) by W1 into h (batch x hidden), and h by W2 into the
-- next x. Each product highlights its volume: model x hidden x microbatch. Communication is drawn in black: between
-- stages, tensor slices and replicas. The order is GPipe: all forward passes, all backward passes, then the gradient
-- all-reduce.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local picture = {}

picture.schema = {
  layers = { "count", default = 4 }, pp = { "degree", default = 2 }, dp = { "degree", default = 2 },
  tp = { "degree", default = 1 }, microbatches = { "count", default = 4 },
  width = { "count", default = 8 }, hidden = { "count", default = 16 }, batch = { "count", default = 48 },
}

local gap = { stage = 12, layer = 4, slice = 3, replica = 12, microbatch = 0.6 }

--- Checks divisibility and limits the size of the page.
local function check(o)
  o = schema.check(o or {}, picture.schema, "picture")
  local broken = {}
  local function divides(name, size, by_name, by)
    if size % by ~= 0 then
      broken[#broken + 1] = ("%s = %d must be divisible by %s = %d"):format(name, size, by_name, by)
    end
  end
  divides("layers", o.layers, "pp", o.pp)
  divides("hidden", o.hidden, "tp", o.tp)
  divides("batch", o.batch, "dp x microbatches", o.dp * o.microbatches)
  if o.layers * o.dp * o.tp * o.microbatches > 4096 then
    broken[#broken + 1] = ("layers x dp x tp x microbatches = %d must be at most 4096 to be drawn"):format(
      o.layers * o.dp * o.tp * o.microbatches)
  end
  if #broken > 0 then error_module.raise("limit", "picture: %s", table.concat(broken, "; ")) end
  return o
end

--- The picture under construction: sizes, frames, boxes, and an index of the boxes by key.
local scene = {}
scene.__index = scene

local function new_scene(o)
  local self = setmetatable({ o = o, boxes = {}, frames = {}, made = {} }, scene)
  self.per_stage = o.layers // o.pp
  self.slice_size = o.hidden // o.tp
  self.hidden_size = o.hidden + (o.tp - 1) * gap.slice
  self.each = o.batch // (o.dp * o.microbatches)
  self.replica_size = o.microbatches * (self.each + gap.microbatch)
  self.size = { self:step(o.layers, o.width) + 2 * o.width + gap.layer,
    self:step(o.layers, self.hidden_size) + self.hidden_size, o.dp * (self.replica_size + gap.replica) - gap.replica }
  return self
end

--- Coordinate at which layer l begins on an axis with this layer size; l = layers + 1 gives the last output.
function scene:step(l, size)
  local crossed = math.min((l - 1) // self.per_stage, self.o.pp - 1)
  return (l - 1) * (size + gap.layer) + crossed * gap.stage
end

function scene:model(l)
  local low = self:step(l, self.o.width)
  return low, low + self.o.width
end

--- Coordinate at which the product W2 of layer l ends: the next layer, or before a gap between stages.
function scene:output(l)
  local _, high = self:model(l)
  return high + gap.layer, high + self.o.width + gap.layer
end

function scene:hidden(l, s)
  local low = self:step(l, self.hidden_size) + (s - 1) * (self.slice_size + gap.slice)
  return low, low + self.slice_size
end

function scene:far(l) return self:step(l, self.hidden_size) + self.hidden_size + gap.layer / 2 end

function scene:samples(r, m)
  local low = (r - 1) * (self.replica_size + gap.replica) + (m - 1) * (self.each + gap.microbatch)
  return low, low + self.each
end

function scene:leaves_stage(l) return l % self.per_stage == 0 and l < self.o.layers end

--- Adds a box with coordinates rounded to six digits; returns its index from 0.
function scene:box(...)
  local box = { ... }
  for i = 2, 7 do box[i] = tonumber(("%.6g"):format(box[i])) end
  self.boxes[#self.boxes + 1] = box
  return #self.boxes - 1
end

--- The box of a key; fn creates it at its first use.
function scene:once(key, fn)
  key = table.concat(key, " ")
  self.made[key] = self.made[key] or fn()
  return self.made[key]
end

function scene:frame(index)
  for k = #self.frames + 1, index do self.frames[k] = { come = {}, gone = {}, flash = {}, words = {} } end
  return self.frames[index]
end

function scene.say(f, text)
  for _, word in ipairs(f.words) do if word == text then return end end
  f.words[#f.words + 1] = text
end

local function put(f, list, index) f[list][#f[list] + 1] = index end

--- A flat face: x over (model, batch) above its layer; with a slice s, h over (hidden, batch) beside it.
function scene:face(kind, l, r, m, s, text)
  return self:once({ kind, l, r, m, s or 0 }, function()
    local z0, z1 = self:samples(r, m)
    local x0, x1 = self:model(l)
    if s then
      local y0, y1 = self:hidden(l, s)
      return self:box(kind, x1 + gap.layer / 2, x1 + gap.layer / 2, y0, y1, z0, z1, text)
    end
    local last = l > self.o.layers
    if last then x0, x1 = self:output(self.o.layers) end
    local edge = last and self.size[2] + gap.layer / 2 or self:step(l, self.hidden_size) - gap.layer / 2
    return self:box(kind, x0, x1, edge, edge, z0, z1, text)
  end)
end

--- A weight matrix of a replica, or its gradient: W1, or W2 when `second`.
function scene:matrix(kind, l, second, r, s)
  return self:once({ kind, l, tostring(second), r, s }, function()
    local x0, x1 = self[second and "output" or "model"](self, l)
    local y0, y1 = self:hidden(l, s)
    local z = (r - 1) * (self.replica_size + gap.replica) - 1.5
    local text = r == 1 and s == 1 and ("%sW%d.%d"):format(kind == "gradient" and "∇" or "", second and 2 or 1, l)
    return self:box(kind, x0, x1, y0, y1, z, z, text or nil)
  end)
end

--- The volume of a product, highlighted for one frame.
function scene:volume(f, l, second, r, m, s)
  local x0, x1 = self[second and "output" or "model"](self, l)
  local y0, y1 = self:hidden(l, s)
  put(f, "flash", self:box("compute", x0, x1, y0, y1, self:samples(r, m)))
end

--- The output of layer l on its own stage, before it is sent.
function scene:waiting(kind, l, r, m)
  return self:once({ "out", kind, l, r, m }, function()
    local x0, x1 = self:output(l)
    local y = self:far(l)
    return self:box(kind, x0, x1, y, y, self:samples(r, m))
  end)
end

--- A black bar at the output of layer l (or, for l = 0, the input) of one microbatch; between stages when `send`.
function scene:flash(f, text, l, m, send)
  for r = 1, self.o.dp do
    local x0, x1 = self:output(math.max(l, 1))
    if l == 0 then x0, x1 = self:model(1) end
    local y0 = l == 0 and -gap.layer / 2 or self:far(l)
    local y1 = y0
    if send then
      local _, far = self:model(l + 1)
      x1, y1 = far, self:step(l + 1, self.hidden_size) - gap.layer / 2
    end
    local z0, z1 = self:samples(r, m)
    put(f, "flash", self:box("send", x0 - 0.5, x1 + 0.5, y0 - 1, y1 + 1, z0, z1))
  end
  scene.say(f, text)
end

function scene:each_slice(fn)
  for r = 1, self.o.dp do
    for s = 1, self.o.tp do fn(r, s) end
  end
end

--- The first frame: the weights and the batch.
function scene:start()
  local o, first = self.o, self:frame(1)
  scene.say(first, "weights in place; the batch waits")
  for r = 1, o.dp do
    for l = 1, o.layers do
      for s = 1, o.tp do
        put(first, "come", self:matrix("weight", l, false, r, s))
        put(first, "come", self:matrix("weight", l, true, r, s))
      end
    end
    for m = 1, o.microbatches do put(first, "come", self:face("activation", 1, r, m)) end
  end
end

--- Calls fn(frame number, layer, microbatch) for every layer of one pass, from frame `begin` on. A layer of one
--- microbatch takes two frames for its products, then one for tensor slices and one for stages, if any.
function scene:each_layer(begin, backward, fn)
  local o = self.o
  local slot = 2 + (o.tp > 1 and 1 or 0) + (o.pp > 1 and 1 or 0)
  for order = 1, o.pp do
    local stage = backward and o.pp - order + 1 or order
    local low, high = (stage - 1) * self.per_stage + 1, stage * self.per_stage
    for m = 1, o.microbatches do
      for offset = 0, self.per_stage - 1 do
        fn(begin + ((order + m - 2) * self.per_stage + offset) * slot, backward and high - offset or low + offset, m)
      end
    end
  end
end

function scene:forward(t, l, m)
  local o, f, g = self.o, self:frame(t), self:frame(t + 1)
  self:each_slice(function(r, s)
    self:volume(f, l, false, r, m, s)
    put(f, "come", self:face("activation", l, r, m, s))
    self:volume(g, l, true, r, m, s)
    if s == 1 then
      put(g, "come", self:leaves_stage(l) and self:waiting("activation", l, r, m)
        or self:face("activation", l + 1, r, m))
    end
  end)
  for _, frame in ipairs { f, g } do scene.say(frame, ("forward: layer %d"):format(l)) end
  local after = t + 2
  if o.tp > 1 then
    self:flash(self:frame(after), "tensor slices sum", l, m)
    after = after + 1
  end
  if self:leaves_stage(l) then
    self:flash(self:frame(after), "stages send activations", l, m, true)
    for r = 1, o.dp do
      put(self:frame(after + 1), "gone", self:waiting("activation", l, r, m))
      put(self:frame(after + 1), "come", self:face("activation", l + 1, r, m))
    end
  end
end

--- The frame between forward and backward passes: the loss.
function scene:turn()
  local o, turn = self.o, self:frame(#self.frames + 1)
  scene.say(turn, "loss; the backward pass begins")
  for r = 1, o.dp do
    for m = 1, o.microbatches do
      put(turn, "gone", self:face("activation", o.layers + 1, r, m))
      put(turn, "come", self:face("gradient", o.layers + 1, r, m, nil, r == 1 and m == 1 and "∇" or nil))
    end
  end
end

function scene:backward(t, l, m)
  local o, f, g = self.o, self:frame(t), self:frame(t + 1)
  self:each_slice(function(r, s)
    self:volume(f, l, true, r, m, s)
    put(f, "gone", self:face("activation", l, r, m, s))
    put(f, "come", self:face("gradient", l, r, m, s))
    put(f, "come", self:matrix("gradient", l, true, r, s))
    self:volume(g, l, false, r, m, s)
    put(g, "gone", self:face("gradient", l, r, m, s))
    put(g, "come", self:matrix("gradient", l, false, r, s))
    if s == 1 then
      put(g, "gone", self:leaves_stage(l) and self:waiting("gradient", l, r, m)
        or self:face("gradient", l + 1, r, m))
      put(g, "gone", self:face("activation", l, r, m))
      put(g, "come", self:face("gradient", l, r, m))
    end
  end)
  for _, frame in ipairs { f, g } do scene.say(frame, ("backward: layer %d"):format(l)) end
  local after = t + 2
  if o.tp > 1 then
    self:flash(self:frame(after), "tensor slices sum", l - 1, m)
    after = after + 1
  end
  if l > 1 and self:leaves_stage(l - 1) then
    self:flash(self:frame(after), "stages send gradients", l - 1, m, true)
    for r = 1, o.dp do
      put(self:frame(after + 1), "gone", self:face("gradient", l, r, m))
      put(self:frame(after + 1), "come", self:waiting("gradient", l - 1, r, m))
    end
  end
end

--- The last frames: all-reduce of weight gradients over replicas, and the update of weights.
function scene:finish()
  local o, inputs = self.o, self:frame(#self.frames + 1)
  scene.say(inputs, "weight gradients are complete")
  for r = 1, o.dp do
    for m = 1, o.microbatches do put(inputs, "gone", self:face("gradient", 1, r, m)) end
  end
  for l = o.dp > 1 and o.layers or 0, 1, -1 do
    local f = self:frame(#self.frames + 1)
    scene.say(f, ("replicas sum gradients: layer %d"):format(l))
    self:each_slice(function(r, s)
      for _, second in ipairs { false, true } do
        local b = self.boxes[self:matrix("gradient", l, second, r, s) + 1]
        put(f, "flash", self:box("send", b[2] - 0.5, b[3] + 0.5, b[4] - 0.5, b[5] + 0.5, b[6] - 1, b[7] + 1))
      end
    end)
  end
  local last = self:frame(#self.frames + 1)
  scene.say(last, "weights are updated; the batch is done")
  for l = 1, o.layers do
    self:each_slice(function(r, s)
      put(last, "gone", self:matrix("gradient", l, false, r, s))
      put(last, "gone", self:matrix("gradient", l, true, r, s))
    end)
  end
end

--- Boxes and frames of a batch. Box: { kind, x0, x1, y0, y1, z0, z1, label }: x model, y hidden, z batch.
--- Frame: { text, come = boxes that appear, gone =, flash = for this frame only }, indices from 0.
function picture.build(given)
  local self = new_scene(check(given))
  self:start()
  self:each_layer(2, false, function(...) self:forward(...) end)
  self:turn()
  self:each_layer(#self.frames + 1, true, function(...) self:backward(...) end)
  self:finish()
  for _, f in ipairs(self.frames) do
    f.text = #f.words > 0 and table.concat(f.words, "; ") or "pipeline waits"
    f.words = nil
    for _, list in ipairs { "come", "gone", "flash" } do if #f[list] == 0 then f[list] = nil end end
  end
  return { boxes = self.boxes, frames = self.frames, size = self.size, settings = self.o }
end

--- The complete page: HTML with embedded data, styles and script; no other file is needed.
function picture.page(given)
  local pages, built = require "ett.report.page", picture.build(given)
  local template = pages.text_of(require("ett.host").root .. "/lua/ett/ledger/picture.html")
  local o = built.settings
  local title = ("%d layer%s: pipeline %d, data %d, tensor %d, microbatches %d"):format(o.layers,
    o.layers > 1 and "s" or "", o.pp, o.dp, o.tp, o.microbatches)
  local data = pages.json { boxes = built.boxes, frames = built.frames, size = built.size }
  return (template:gsub("@(%u+)@", { TITLE = title, DATA = data })), built
end

return picture
