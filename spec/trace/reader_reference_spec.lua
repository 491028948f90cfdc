--- The shared traces: their contents against independently computed values.
local trace = require "ett.trace"

local root = os.getenv("ETT_REFERENCE")
local file = root and io.open(root .. "/traces/reference.json")
local reference = file and require("cjson").decode(file:read("a"))
if file then file:close() end

--- Records of any kind in some files, counted by another JSON parser.
local seen = {
  hta_df_index_resolver = 216092, hta_mtia_trace_single_rank = 455739, hta_nccl_parser_config = 40573,
  hta_ns_resolution_trace = 68692, hta_amd_trace = 220, hta_cpu_only = 30, hta_mtia_inference_trace = 16158,
  ["tracelens/b200__eager_trace"] = 24656, ["tracelens/mi300__ddp_resnet18_no_pool__train_resnet18"] = 29746,
}

describe("the shared traces", function()
  if not reference then
    pending("skipped: no reference data (ETT_REFERENCE)")
    return
  end

  it("have as many records as another parser counts", function()
    for folder, count in pairs(seen) do
      local t <close> = assert(trace.open(root .. "/traces/" .. folder))
      assert.equal(count, t.files[1].seen_count, folder)
    end
  end)

  for _, entry in ipairs(reference.traces) do
    it("give the device times of " .. entry.trace, function()
      local t <close> = assert(trace.open(root .. "/traces/" .. entry.folder))
      local comm = t:name_set(function(name) return name:find("^nccl") ~= nil end, "kernel")
      for key, want in pairs(entry.ranks) do
        local device = t:events { class = { "kernel", "memcpy", "memset" }, file = tonumber(key) + 1 }
        if want.kernels == 0 then
          assert.equal(0, #device)
        else
          -- the reference adds in doubles: absolute times above 2^50 us carry 0.25 us each
          local from, to = device:span()
          local slack = want.busy_us == math.floor(want.busy_us) and from % 1000 == 0 and 0 or 1e-4 * want.busy_us + 1
          local function near(value, expected) assert.is_true(math.abs(value / 1000 - expected) <= slack) end
          near(to - from, want.gpu_span_us)
          near(device:intervals():measure(), want.busy_us)
          near(device:where({ class = { "memcpy", "memset" } }):intervals():measure(), want.mem_union_us)
          assert.equal(want.mem_ops, #device:where { class = { "memcpy", "memset" } })
          assert.equal(want.comm_kernels + want.comp_kernels, #device:where { class = "kernel" })
          if entry.folder:find("^tracelens") == nil then
            near(device:where({ class = "kernel", names = comm }):intervals():measure(), want.comm_union_us)
          end
        end
      end
    end)
  end

  it("read the same in one thread and in three, in stretches and whole", function()
    for _, folder in ipairs { "megatron_tp8_a100", "hta_trace_diff", "tpu_inference_jax" } do
      local function stats(options)
        local t <close> = assert(trace.open(root .. "/traces/" .. folder, options))
        local all = t:events()
        return { #all, all:total(), all:stats { by = { "file", "name", "stream" } } }
      end
      assert.same(stats { threads = 1 }, stats { threads = 3 })
    end
  end)

  it("include a protobuf with damaged bytes, which is refused because nothing of it can be read", function()
    local none, why = trace.open(root .. "/traces/xplane_xprof/tpu_inference_2.xplane.pb")
    assert.is_nil(none)
    assert.matches("none of its events can be read", tostring(why))
  end)
end)
