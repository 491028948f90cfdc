--- Measures one target of a campaign into its table (ett.sampling.store).
--
-- For shapes with several visits, ett.sampling.visits stores the visits of unfinished shapes beside the table.
local error_module = require "ett.base.error"
local json = require "ett.json"
local lfs = require "lfs"
local sample = require "ett.sample"
local sample_check = require "ett.sampling.check"
local sample_limit = require "ett.sampling.limit"
local sample_table = require "ett.samples.table"
local store = require "ett.sampling.store"
local visits = require "ett.sampling.visits"

local one_line = sample_table.one_line
local runner = {}

-- Largest number of shapes of a table in one run.
local MOST_PENDING = 1 << 26

--- Indices of the target's shapes that this process measures, in order; and the number of shapes left out because they
--- failed before.
---@param chooses boolean whether a chooser takes at most run.limit of them; it looks at all
local function pending(target, held, run, chooses)
  local list, left, limit = {}, 0, not chooses and run.limit or nil
  if held.failed.all and not run.retry_failed then return list, left end
  local mine = (target.total - run.part) // run.parts + 1
  if mine > MOST_PENDING and not limit then
    error_module.raise("limit", "%s: %d shapes are more than the limit of %d for one run; give %s, or a design with "
      .. "count", target.name, mine, MOST_PENDING, chooses and "--parts" or "--limit, --parts")
  end
  for index = run.part, target.total, run.parts do
    if #list == limit or sample.interrupted() then break end
    local key = table.concat(target.values(index), ",")
    local failed = held.failed[key] and not run.retry_failed
    if not held.done[key] and not failed then list[#list + 1] = index end
    if not held.done[key] and failed then left = left + 1 end
  end
  return list, left
end

--- Measures one shape of a target. Returns its results, or nil and an error. Raises only on an interrupt.
function runner.measure(session, target, values, before)
  local ok, results, err = sample_limit.call(function()
    if target.kind == "collective" then
      return session.measure_collective(target, target.message(values[1], session.topology))
    end
    return session.measure(target.operator, target.shape(values), before, target)
  end)
  if not ok then results, err = nil, error_module.from(results) end
  if err and err.kind == "interrupt" then error(err, 0) end -- not an error of the shape
  return results, err
end

--- The work list of a single process, with the interface of ett.base.share. take(stop) -> position or nil.
local function local_work(journal, count, chooser)
  local at = 0
  return {
    take = function(stop)
      at = at + 1
      if stop or at > count then return nil end
      return chooser and chooser.next() or not chooser and at or nil
    end,
    commit = function(lines) error_module.must(journal:append(table.concat(lines, "\n"))) end,
    close = function() journal:close() end,
  }
end

local function never() return false end

--- Results of a shape that all ranks measured together. If one rank failed, all fail.
local function agreed(shared, results, err)
  local rank = shared.worst(results == nil)
  if not rank then return results end
  local own = err and ("%s %s"):format(err.kind or "internal", tostring(err)) or ""
  local kind, reason = shared.text_of(rank, own):match("^(%S+) (.*)$")
  if err then return nil, err end -- this rank's own
  return nil, error_module.new(kind, "rank %d: %s", rank, reason)
end

---@class Runner session, target, run, path; shared: the job or nil; leader: whether this rank writes; journal, held,
--- list; work; chooser; together: all ranks measure each shape at once; kept: visits of shapes without a row; report
local Runner = {}
Runner.__index = Runner

function Runner:__close()
  if self.kept then pcall(self.kept.close, false) end -- an earlier error takes precedence
  if self.journal and not self.shared then self.journal:close() end -- a job closes it with its work list, or aborts
end

--- Checks the operator, opens the table and lists the shapes. False if this process has nothing to measure.
function Runner:begin()
  local target, run, shared = self.target, self.run, self.shared
  run.verdict = nil
  local begun = self.leader and lfs.attributes(self.path, "mode") ~= nil
  -- The header of a new table records the check of its operator; a complete table needs no check.
  if shared or not begun then run.verdict = sample_check.target(self.session, target, run) end
  if not self.leader then return not (run.verdict and run.verdict.failure) end
  self.journal, self.held = store.open(self.session, target, run, self.path)
  self.list, self.left = pending(target, self.held, run, run.chooser and target.kind == "operator")
  if not shared and begun and #self.list > 0 then run.verdict = sample_check.target(self.session, target, run) end
  if run.verdict and run.verdict.failure then
    self.report = sample_check.refuse(self.journal, self.held, target, self.path, run.verdict.failure)
    run.on_begin(self.report)
    return false
  end
  if #self.list > 0 then sample_check.note(self.journal, self.held, run.verdict) end
  return true
end

--- Gets the work list: of this process, or shared between ranks.
function Runner:prepare()
  local session, target, run, shared = self.session, self.target, self.run, self.shared
  self.chooser = run.chooser and run.chooser(target, self.list, run.precision, self.path)
  self.together = shared and run.together and target.kind == "operator"
  if shared then self.work, self.list = shared.work(self.journal, self.list, target, self.together) end
  local count = math.min(#self.list, run.limit or math.maxinteger)
  if not shared then self.work = local_work(self.journal, count, self.chooser) end
  self.visits = target.kind == "operator" and session.visits or 1
  self.size = self.visits == 1 and 1 or self.chooser and 4 or shared and not self.together and 8
    or run.campaign.block or 8
  self.kept = self.visits > 1 and not shared and not self.chooser
    and visits.open(self.path, store.title(target, run), self.held) or nil
  self.report = { path = self.path, name = target.name, measured = 0, failed = 0, disturbed = 0,
    earlier = 0.0, -- visits of an earlier run, in shapes
    total = #self.list, most = count, -- a chooser takes `most` of `total` shapes
    held = self.held and self.held.rows or 0, left = self.left, takes_turns = run.interleave,
    count = self.work.count }
  if self.leader then run.on_begin(self.report) end
end

--- Whether to stop: Ctrl-C, or the campaign's time is over.
function Runner:stop()
  local report, deadline = self.report, self.run.deadline
  if sample.interrupted() or (deadline and sample.now() > deadline) then report.interrupted = true end
  return report.interrupted
end

-- The repeats of a pass on every rank; every rank calls it.
local function of_ranks(shared, seconds)
  local lists = {}
  for rank = 0, shared.size() - 1 do
    lists[rank + 1] = json.decode(shared.text_of(rank, rank == shared.rank() and json.encode(seconds) or ""))
  end
  return lists
end

function Runner:record_row(values, key, results)
  local report, session, shared = self.report, self.session, self.shared
  for _, entry in ipairs(self.together and sample_table.passes(results) or {}) do
    local result = entry[2]
    result.seconds = shared.mean(result.seconds)
    result.raw_of_ranks = self.run.keep_raw and of_ranks(shared, result.raw_seconds) or nil
  end
  local lines, why, note = sample_table.marks_of(key, results, self.run.keep_raw)
  if why then report.disturbed = report.disturbed + 1 end
  if note then
    report.notes = report.notes or {}
    table.insert(report.notes, ("%s: %s"):format(key, note))
  end
  lines[#lines + 1] = sample_table.row(self.target, values, results, session.topology)
  self.work.commit(lines)
  report.measured = report.measured + 1
  if self.chooser then self.chooser.add(self.target.shape(values), results) end
end

--- Writes a shape's row, or the reason of its failure.
function Runner:record(values, results, err)
  local report, key = self.report, table.concat(values, ",")
  if results then
    self:record_row(values, key, results)
  else
    if err.fatal then error(err, 0) end -- every other shape would fail too
    local reason = one_line(err.message or err)
    self.work.commit { sample_table.failure(key, ("%s: %s"):format(err.kind or "internal", reason)) }
    report.failed = report.failed + 1
    report.last_failure = ("%s: %s"):format(key, reason)
    if err.kind == "lost" then error(err, 0) end -- the device is lost: nothing more can be measured
  end
  if self.leader then self.run.on_progress(report) end
end

--- Progress of the whole table, in shapes: rows, failures and visits of the block under way.
function Runner:progress(under_way)
  local report = self.report
  return (report.measured + report.failed + under_way) / report.total
end

--- With a campaign's `seconds`: visits wait for undisturbed memory while half of all visits still fit.
function Runner:quiet_tasks(tasks, block)
  local session, run = self.session, self.run
  local last = run.began + run.seconds
  function tasks.again() return sample.now() < last and session.await(last) end
  function tasks.pace(done)
    session.await(run.began + run.seconds * math.min(1, 2 * self:progress(done * #block)))
    return sample.now() < last
  end
end

function Runner:tasks(block)
  local session, run, shared = self.session, self.run, self.shared
  local function stop() return self:stop() end
  local tasks = { merge = session.merge or visits.better, stop = (run.interleave or self.size > 8) and stop or never }
  function tasks.visit(values, before)
    local results, err = runner.measure(session, self.target, values, before)
    if self.together then results, err = agreed(shared, results, err) end
    if self.kept and results then self.kept.add(table.concat(values, ","), results) end
    return results, err
  end
  if self.together then -- no rank may leave a shape while another measures it
    local merge = tasks.merge
    function tasks.stop()
      self.report.interrupted = shared.align(self:stop())
      return self.report.interrupted
    end
    function tasks.merge(before, now)
      local merged, settled, wanting = merge(before, now)
      return merged, not shared.worst(not settled), wanting
    end
  end
  function tasks.turn(under_way, rounds)
    self.report.under_way = under_way
    if self.leader and self.visits > 1 then run.on_progress(self.report) end
    if run.interleave then coroutine.yield(self:progress(under_way) + math.max(0, rounds - self.visits)) end
  end
  if run.seconds and session.await then self:quiet_tasks(tasks, block) end
  return tasks
end

--- The block's entry of a shape, with the visits of an earlier run.
function Runner:entry(position, tasks)
  local entry = { values = self.target.values(self.list[position]) }
  if self.kept then
    local made = self.kept.of(table.concat(entry.values, ","))
    for _, results in ipairs(self.session.recall and made or {}) do self.session.recall(results) end
    visits.restore(entry, made, self.visits, tasks.merge)
    self.report.earlier = self.report.earlier + math.min(1, #made / self.visits)
  end
  return entry
end

--- Measures every shape of the work list, block by block.
function Runner:measure_all()
  local block, finished = {}, false
  local tasks = self:tasks(block)
  while not finished do
    local position = self.work.take(self:stop())
    finished = position == nil
    if position then block[#block + 1] = self:entry(position, tasks) end
    local chosen_all = self.chooser and self.chooser.waiting() == 0
    if #block > 0 and (#block == self.size or finished or chosen_all) then
      local whole = visits.run(block, self.visits, tasks)
      self.report.under_way = 0
      for i, entry in ipairs(block) do
        -- After a stop the next run measures shapes with too few visits.
        if whole or entry.err or 2 * (entry.visits or 0) >= self.visits then
          self:record(entry.values, entry.results, entry.err)
        end
        block[i] = nil
      end
    end
  end
end

function Runner:finish(began)
  local report, shared, run, chooser = self.report, self.shared, self.run, self.chooser
  if self.kept then self.kept.close(not report.interrupted) end
  self.kept = nil
  self.work.close()
  report.count = nil
  report.seconds = sample.now() - began
  report.refused = self.leader and not run.retry_failed and self.held.failed.all or nil
  report.error, report.excess = chooser and chooser.error, chooser and chooser.excess
  if shared and self.target.kind == "operator" and not self.together then
    shared.sum(report, { "measured", "failed", "disturbed" })
    local rank = shared.worst(report.last_failure)
    if rank then report.last_failure = shared.text_of(rank, report.last_failure or "") end
    if self.leader then run.on_progress(report) end
  end
end

--- Measures one target into its table. Returns its report; nil on a rank without work.
---@param session table of a back end
---@param target table of a campaign
---@param run table of ett.sampling.sampler
function runner.run(session, target, run, path)
  local shared = run.share
  local self <close> = setmetatable({ session = session, target = target, run = run, path = path, shared = shared,
    leader = not shared or shared.rank() == 0 }, Runner)
  if not self:begin() then return self.report end
  self:prepare()
  local began = sample.now()
  self:measure_all()
  self:finish(began)
  return self.report
end

return runner
