--- `ett submit --wait`, with programs in place of Slurm's.
local command = require "command"
local host = require "ett.host"

local folder

local function program(name, lines)
  command.write(folder, name, "#!/bin/sh\n" .. lines)
  os.execute(("chmod +x '%s/%s'"):format(folder, name))
end

describe("ett submit --wait", function()
  setup(function()
    folder = command.folder()
    program("sbatch", "echo 7\n")
  end)
  teardown(function() command.remove(folder) end)

  it("says why a job is pending, each reason once, and ends with the job", function()
    local down = "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions"
    program("scontrol", ([[
echo x >> calls
case $(wc -l < calls) in
1) echo "JobId=7 JobState=PENDING Reason=None" ;;
2 | 3 | 5) echo "JobId=7 JobState=PENDING Reason=%s" ;;
4) echo "JobId=7 JobState=PENDING Reason=Resources" ;;
*) echo "JobId=7 JobState=COMPLETED Reason=None ExitCode=0:0 StdOut=o" ;;
esac
]]):format(down))
    for _, mode in ipairs { "", " --quiet" } do
      os.execute(("rm -f '%s/calls'"):format(folder))
      local output, status = command.shell(("cd '%s' && PATH=$PWD:$PATH '%s/bin/ett' submit cpu_30s --wait%s")
        :format(folder, host.prefix, mode))
      assert.equal(0, status, output)
      assert.equal(mode == "" and "job 7: samples/ett-sample.sbatch\n# job 7 is pending: " .. down:gsub("_", " ")
        .. "\n# job 7 is pending: Resources\n" or "7\n", output)
    end
  end)

  it("names the output of a failed job, in a folder whose name has a space", function()
    for _, rest in ipairs { "", " Power=", " TresPerNode=gres:gpu:8 MailUser=me" } do
      program("scontrol", ("echo 'JobId=7 JobState=FAILED Reason=None ExitCode=1:0 StdErr=/a b/slurm-7.log "
        .. "StdIn=/dev/null StdOut=/a b/slurm-7.log%s'\n"):format(rest))
      local output, status = command.shell(("cd '%s' && PATH=$PWD:$PATH '%s/bin/ett' submit cpu_30s --wait")
        :format(folder, host.prefix))
      assert.equal(1, status)
      assert.matches("job 7 ended as FAILED: exit code 1:0, its output is in /a b/slurm%-7.log\n$", output)
    end
  end)
end)
