--- The shared sample files of estimate-train-time, as the benchmarks of regressors read them.
---   local files = shared_samples.read()     -- of ett.holdout; or nil if the files are missing
local holdout = require "ett.profile.holdout"
local samples = require "ett.profile.samples"

local shared_samples = {}

--- Files with faults of their sampling, by the initial of their cluster.
local corrupt = {
  ["P allgather_large"] = true, ["P allgather_large_1_4"] = true, ["V allgather_large_4_1"] = true,
  ["V allgather_large_8_1"] = true, ["V firstStage_optimizer"] = true,
}

--- The folder of the files, or nil: under $ETT_REFERENCE, else beside the source tree.
function shared_samples.folder()
  local root = os.getenv("ETT_REFERENCE") or (require("ett.host").root .. "/../shared/reference")
  local folder = root .. "/estimate-train-time/regressors"
  return require("lfs").attributes(folder, "mode") == "directory" and folder or nil
end

--- The files of both clusters, Perlmutter (P) and Vista (V), or nil. Five are marked corrupt.
function shared_samples.read()
  local folder = shared_samples.folder()
  if not folder then return nil end
  local function read(name, ...) return holdout.read_files(assert(samples.index(folder .. name)), ...) end
  local files = read("/Perlmutter", "P", 108)
  for _, file in ipairs(read("/Vista", "V", 132)) do files[#files + 1] = file end
  for _, file in ipairs(files) do file.corrupt = corrupt[file.cluster .. " " .. file.label] or false end
  return files
end

-- Kernels that Perlmutter's linear2 would run on 2 to 16 tensor ranks.
local function kernels_of_linear2(files)
  local regress, wanted = require "ett.regress", {}
  for _, file in ipairs(files) do
    for i = 1, file.key == "P gemm fp16" and file.label == "linear2" and file.count or 0 do
      local m, n = file.rows[4 * i - 2], file.rows[4 * i - 1]
      for _, tp in ipairs { 2, 4, 8, 16 } do
        if n % tp == 0 then wanted[regress.kernels(file.design, { 1, m, n, n // tp })[1]] = true end
      end
    end
  end
  return wanted
end

--- Error at the shapes of Perlmutter's linear2 on several tensor ranks, which were not sampled under that name. The
--- same products are in the sibling files, such as linear4 at four times the ranks. Those rows are held out of every
--- file, and the pool is fitted to the rest.
---@return table[] { pass=, rows=, error= }
function shared_samples.linear2(files)
  local wanted, by_pass = kernels_of_linear2(files), {}
  local results = holdout.run(files, { threads = 2, as_sampled = true, splits = { "linear2" },
    only = function(file) return file.key == "P gemm fp16" end,
    test_rows = function(file)
      local marks = {}
      for i, kernel in ipairs(file.kernels) do marks[i] = wanted[kernel] or false end
      return marks
    end })
  for _, r in ipairs(results) do
    local sum = by_pass[r.pass] or { pass = r.pass, rows = 0, error = 0.0 }
    if r.rows > 0 then sum.error, sum.rows = sum.error + r.error * r.rows, sum.rows + r.rows end
    by_pass[r.pass] = sum
  end
  for _, sum in pairs(by_pass) do sum.error = sum.error / sum.rows end
  return { by_pass.forward, by_pass.backward }
end

return shared_samples
