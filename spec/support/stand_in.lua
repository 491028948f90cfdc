--- Runs ett against the stand-in GPU (spec/support/gpu): NVIDIA's libraries by name, on the host.
--
-- Only processes started here use it: LD_LIBRARY_PATH is set for them alone.
local command = require "command"
local host = require "ett.host"
local io_module = require "ett.io"
local lfs = require "lfs"
local quote = require("ett.base.shell").quote

local libraries = host.prefix .. "/stand-in"
-- Compiled kernels are kept in the build folder. The folder's name depends on the sources of the stand-in.
local function content(path) return io_module.hash_file(path) or "" end
local kernels = ("%s/kernels-%s"):format(libraries, io_module.hash(content(host.root .. "/spec/support/cuda_host.h"),
  content(libraries .. "/execute/libnvrtc.so"), content(libraries .. "/libcuda.so.1")))
local stand_in = { folder = command.folder, each_folder = command.each_folder, write = command.write,
  read = command.read }

--- The reason why the stand-in cannot be used here, or nil.
function stand_in.missing()
  if not lfs.attributes(libraries .. "/libcuda.so.1") then
    return "the stand-in GPU is not built here: no CUDA toolkit headers"
  end
  local ok, cuda = pcall(require, "ett.cuda")
  if not ok then return "the CUDA back end is not built here: no toolkit headers" end
  if not cuda.compile { source = 'extern "C" __global__ void probe(T *p) { store(p, 0, 1.0f); }' } then
    return "no NVRTC on this machine"
  end
end

--- Settings that make kernels, products and attention compute their results.
function stand_in.computing()
  return { ETT_GPU_EXECUTE = kernels, ETT_GPU_HOST_HEADER = libraries .. "/cuda_host.h" }
end

--- A command line that runs `ett ARGUMENTS` in a folder with the stand-in.
---@param settings table<string, string|number>? environment: ETT_GPU_… and others
function stand_in.command(folder, arguments, settings)
  local words = { "cd", quote(folder), "&&", "env", "-u", "LD_PRELOAD" }
  settings = settings or {}
  words[#words + 1] = "LD_LIBRARY_PATH=" .. quote(libraries .. "/execute:" .. libraries)
  words[#words + 1] = "ETT_GPU_CUBINS=" .. quote(kernels)
  lfs.mkdir(kernels)
  for name, value in pairs(settings) do words[#words + 1] = name .. "=" .. quote(tostring(value)) end
  words[#words + 1] = quote(host.prefix .. "/bin/ett")
  words[#words + 1] = arguments
  -- It computes only with these settings; otherwise results are not numbers.
  if not settings.ETT_GPU_EXECUTE and (arguments:match("^sample ") or arguments:match("^validate .*cuda")) then
    words[#words + 1] = "--no-check"
  end
  return table.concat(words, " ")
end

--- Runs `ett ARGUMENTS`: its output (both streams) and exit status.
function stand_in.run(folder, arguments, settings)
  return command.shell(stand_in.command(folder, arguments, settings))
end

--- Checks the output of a failure: one line that begins with "ett: ", without a traceback.
function stand_in.one_sentence(out)
  assert(select(2, out:gsub("\n", "")) == 1 and out:match("^ett: ") and not out:find("stack traceback", 1, true), out)
end

--- The counts of the stand-in: name -> number (settings.ETT_GPU_REPORT named the file).
function stand_in.report(folder, name)
  local counts = {}
  for key, count in (stand_in.read(folder, name) or ""):gmatch("(%S+) (%d+)\n") do
    counts[key] = (counts[key] or 0) + math.tointeger(tonumber(count))
  end
  return counts
end

return stand_in
