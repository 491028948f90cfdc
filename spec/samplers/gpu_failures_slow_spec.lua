--- Faults of a GPU, on the stand-in: one sentence with the device or the operator's line, finished rows
--- kept, exit status 1, and a next run that continues.
local ended = require("command").ended
local stand_in = require "stand_in"

if not require("needs").gpu(stand_in.missing(), "a GPU that fails", _ENV) then return end

local one_sentence = stand_in.one_sentence
local folder = stand_in.each_folder(_ENV)

local function operator(name, source, launch)
  stand_in.write(folder, name .. ".lua", ([[
local op = { name = %q, summary = "mine", family = "elementwise", passes = { "forward" }, schema = { n = "count" } }
function op.shape(c) return { n = c.hidden } end
function op.flops(s) return s.n + 0.0 end
function op.bytes(s) return 8.0 * s.n end
op.cuda = [=[
%s]=]
function op.kernel(k, s)
  local x = k.tensor { s.n }
  %s
end
return op
]]):format(name, source, launch))
  stand_in.write(folder, "c.lua", ("return { name = 'c', backend = 'cuda', precision = 'bf16', seed = 1, "
    .. "min_repeats = 3, max_repeats = 3, samples = { { operator = %q, shapes = { n = { 16, 32, 48 } } } } }\n"):format(
      name))
end

local plain = 'extern "C" __global__ void %s(T *x, long long n) {\n'
  .. '  if (threadIdx.x < n) store(x, threadIdx.x, 0);\n}\n'
local usual = 'k.kernel { name = "%s", grid = 1, block = 16, args = { x, s.n } }'

local function sample(settings, more)
  return stand_in.run(folder, "sample c.lua --out s --quiet " .. (more or ""), settings)
end

local function held(name)
  local text = stand_in.read(folder, ("s/Stand-In90_%s_bf16.csv"):format(name)) or ""
  local rows = select(2, text:gsub("\n%d[%d%.,]*", ""))
  return rows, select(2, text:gsub("\n#! failed", "")), text
end

describe("a GPU that fails", function()
  it("out of memory is a failure of the shape, with requested and free bytes", function()
    stand_in.write(folder, "c.lua", "return { name = 'c', backend = 'cuda', precision = 'bf16', seed = 1, "
      .. "min_repeats = 3, max_repeats = 3, samples = { { operator = 'gelu', shapes = { tokens = { 64, 65536, 128 }, "
      .. "width = { 4096 } } } } }\n")
    ended(0, sample { ETT_GPU_MEMORY = 400000000, ETT_GPU_REPORT = folder .. "/report" })
    local rows, failed, text = held "gelu"
    assert.equal(2, rows)
    assert.equal(1, failed)
    assert.matches("#! failed: 65536,4096: memory: out of memory on device 0 %(Stand%-In 90%): a tensor needs "
      .. "536870912 bytes, %d+ of 400000000 are free", text)
    assert.equal(0, stand_in.report(folder, "report").held_bytes)
  end)

  it("memory that runs out at any allocation ends in a sentence or a failed row, never in a crash", function()
    stand_in.write(folder, "c.lua", "return { name = 'c', backend = 'cuda', precision = 'bf16', seed = 1, "
      .. "min_repeats = 3, max_repeats = 3, samples = { { operator = 'flash_attention', shapes = { batch = 1, "
      .. "heads = { 2 }, kv_heads = { 1 }, seq_q = { 32 }, seq_k = { 32 }, head_dim = { 16 }, causal = { 1 } } }, "
      .. "{ operator = 'linear_qkv', shapes = { tokens = { 32 }, in_features = { 32 }, out_features = { 32 } } } } }\n")
    local seen = {}
    for n = 1, 30 do
      os.execute(("rm -rf '%s/s'"):format(folder))
      local out, status = sample { ETT_GPU_ALLOCATION_FAILS = n, ETT_GPU_REPORT = folder .. "/report" .. n }
      assert.is_true(status == 0 or status == 1, ("allocation %d: %s"):format(n, out))
      -- Failed rows in every table are said table by table, then in a sentence.
      local nothing = out:find "\nett: no shape could be measured; the tables give the reasons %(#! failed%)\n$"
      if status == 1 and not nothing then one_sentence(out) end
      assert.matches("out of memory on device 0", out .. (stand_in.read(folder, "s/Stand-In90_flash_attention_bf16.csv")
        or "") .. (stand_in.read(folder, "s/Stand-In90_linear_qkv_bf16.csv") or ""), ("allocation %d"):format(n))
      assert.equal(0, stand_in.report(folder, "report" .. n).held_objects, ("allocation %d"):format(n))
      seen[status] = true
    end
    assert.is_true(seen[0] and seen[1])
  end)

  it("a kernel that does not compile is named with the operator's own line, and nothing is noted", function()
    operator("broken", 'extern "C" __global__ void broken(T *x, long long n) {\n  store(x, 0, nothing);\n}\n',
      usual:format "broken")
    local out = ended(1, sample())
    one_sentence(out)
    assert.matches("^ett: broken.lua: the kernel does not compile for sm_90: broken.lua%(7%): error: identifier "
      .. '"nothing" is undefined', out)
    local rows, failed = held "broken"
    assert.equal(0, rows + failed)
    operator("broken", plain:format "broken", usual:format "broken") -- repaired: the same campaign continues
    ended(0, sample(nil, "--continue-changed"))
    assert.equal(3, (held "broken"))
  end)

  it("a launch that does not fit its kernel is refused before the driver reads past its arguments", function()
    operator("brief", plain:format "brief", 'k.kernel { name = "brief", grid = 1, block = 16, args = { x } }')
    local out = ended(1, sample())
    one_sentence(out)
    assert.matches("brief.lua: brief takes 2 parameters, the launch passes 1", out)
    operator("brief", 'extern "C" __global__ void brief_(T *x, int n) { store(x, n, 0); }\n', usual:format "brief_")
    out = sample(nil, "--continue-changed")
    assert.matches("brief.lua: brief_: parameter 2 has 4 bytes; parameters are pointers, long long or double", out)
    operator("brief", plain:format "other", usual:format "brief")
    out = sample(nil, "--continue-changed")
    assert.matches("brief.lua: the source has no kernel 'brief'", out)
  end)

  it("a kernel that writes out of bounds ends the campaign; the next run continues after its shape", function()
    operator("wild", plain:format "fine" .. plain:format "out_of_bounds",
      'k.kernel { name = s.n == 32 and "out_of_bounds" or "fine", grid = 1, block = 16, args = { x, s.n } }')
    local out = ended(1, sample())
    one_sentence(out)
    assert.matches("wild: device 0 %(Stand%-In 90%): running the kernels: an illegal memory access was encountered",
      out)
    assert.matches("run the same command again to continue after this shape", out)
    local rows, failed, text = held "wild"
    assert.equal(1, rows)
    assert.equal(1, failed)
    assert.matches("#! failed: 32: lost: ", text)
    ended(0, sample())
    assert.equal(2, (held "wild"))
  end)

  it("a kernel that never ends meets the time limit", function()
    operator("slow", plain:format "fine" .. plain:format "never_ends",
      'k.kernel { name = s.n == 32 and "never_ends" or "fine", grid = 1, block = 16, args = { x, s.n } }')
    local out = ended(1, sample { ETT_KERNEL_SECONDS = 0.3 })
    one_sentence(out)
    assert.matches("the kernels did not end within 0.3 seconds", out)
    local rows, failed = held "slow"
    assert.equal(1, rows)
    assert.equal(1, failed)
    ended(0, sample { ETT_KERNEL_SECONDS = 0.3 })
    assert.equal(2, (held "slow"))
  end)

  it("a device that fails by itself leaves no mark: the shape is measured when it is back", function()
    operator("fine", plain:format "fine", usual:format "fine")
    local out = ended(1, sample { ETT_GPU_LOST = "40:214" }) -- an uncorrectable ECC error
    one_sentence(out)
    assert.matches("fine: device 0 %(Stand%-In 90%): .*uncorrectable ECC error encountered; the rows are safe", out)
    local rows, failed = held "fine"
    assert.equal(0, failed)
    assert.is_true(rows < 3)
    ended(0, sample())
    assert.equal(3, (held "fine"))
  end)

  it("no device, and a precision that the device does not have, are said in one sentence", function()
    operator("fine", plain:format "fine", usual:format "fine")
    assert.equal("ett: this machine has no CUDA device\n", ended(1, sample { ETT_GPU_DEVICES = 0 }))
    local out = ended(1, sample({ ETT_GPU_CAPABILITY = 80 }, "--precision fp8"))
    assert.equal("ett: device 0 (Stand-In 80) has compute capability 8.0, fp8 needs 8.9; choose bf16, fp16 or fp32\n",
      out)
  end)

  it("an operator file with a syntax error is named with its line", function()
    operator("fine", plain:format "fine", usual:format "fine")
    stand_in.write(folder, "fine.lua", "local op = {\n  name = 'fine'\n  family = 3\n}\nreturn op\n")
    local out = ended(1, sample())
    one_sentence(out)
    assert.matches("fine.lua:3: ", out)
  end)

  it("with wrong cuDNN results a shape is not measured; a cuDNN that is too old is reported", function()
    stand_in.write(folder, "c.lua", "return { name = 'c', backend = 'cuda', precision = 'bf16', seed = 1, "
      .. "min_repeats = 3, max_repeats = 3, samples = { { operator = 'flash_attention', shapes = { batch = 1, "
      .. "heads = 2, kv_heads = 2, seq_q = 128, seq_k = { 128, 192 }, head_dim = 64, causal = 0 } } } }\n")
    ended(0, sample({ ETT_GPU_CUDNN_VERSION = 91500 }, "--no-check"))
    local rows, failed, text = held "flash_attention"
    assert.equal(1, rows)
    assert.equal(1, failed)
    assert.matches("attention: the backward pass with seq_k 192, no multiple of 128, needs cuDNN 9%.16 or newer, "
      .. "found 91500", text)
    os.execute(("rm -rf '%s/s'"):format(folder))
    ended(0, sample({ ETT_GPU_CUDNN_VERSION = 91600 }, "--no-check"))
    assert.equal(2, (held "flash_attention"))
    os.execute(("rm -rf '%s/s'"):format(folder))
    local out = ended(1, sample({ ETT_GPU_CUDNN_VERSION = 90500 }, "--no-check"))
    assert.matches("attention needs cuDNN 9%.6 or newer, found 90500; install it", out)
  end)

  it("an fp8 product whose sizes the tensor cores cannot take is that shape's failure", function()
    stand_in.write(folder, "c.lua", "return { name = 'c', backend = 'cuda', precision = 'fp8', seed = 1, "
      .. "min_repeats = 3, max_repeats = 3, samples = { { operator = 'linear_qkv', shapes = { tokens = { 32 }, "
      .. "in_features = { 24, 32 }, out_features = { 32 } } } } }\n")
    assert.matches("fp8 products need k and n in multiples of 16", ended(0, sample()))
  end)
end)
