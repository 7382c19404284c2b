from pathlib import Path
import itertools
from agent.agent import AIAgent
from agent.compression.tokens import estimate_tokens, message_tokens
from agent.config_schema import CompressionSettings
from agent.errors import ContextTooLongError
from agent.model import Usage
from agent.scripted import *
from hermes_state import SessionDB
from tools.base import ToolContext, tool
from tools.registry import Registry
from .compressing import *
from .test_compression_driver_properties import Talk, AnyBehaviour
import agent.compression.driver
import sys
D=sys.modules["agent.compression.driver"]
def test_x(tmp_path):
    window,weight=2000,2.4
    with SessionDB(tmp_path/"s.db") as db:
        spoken=Talk(db,"s")
        spoken.store([(('word '*300,False),[('word '*129,False)],('x '*20,False))]*4)
        reads=iter(range(10**6))
        def read(context: ToolContext) -> str:
            return spoken.marked("result " * 700)
        n=[0]
        def answer(request):
            n[0]+=1
            size=int(weight*estimate_tokens(request.messages, request.system, request.tools))
            print("CALL",n[0],size,[(m["role"],message_tokens(m),str(m["content"])[:30]) for m in request.messages])
            if size>window: return fail(ContextTooLongError)
            last=request.messages[-1]
            if n[0]>25: return say("stop")
            if "[use tools]" in str(last["content"]) or (last["role"]=="tool" and next(reads)%4):
                return calls([Call("read",{}),Call("read",{})])
            return say(spoken.marked("answer"),usage=Usage(input_tokens=size))
        orig=D.compress
        async def c(messages,**k):
            r=await orig(messages,**k)
            print("  COMPRESS target",k["target_tokens"],"->",r and (r.method,r.after_tokens,[(m["role"],message_tokens(m)) for m in r.messages]))
            return r
        D.compress=c
        os_=D.shorten_to_fit
        def s2(messages,**k):
            r=os_(messages,**k); print("  SHORTEN",k["target_tokens"],r.after_tokens,[(m["role"],message_tokens(m)) for m in r.messages]); return r
        D.shorten_to_fit=s2
        agent=AIAgent(ScriptedModel(itertools.repeat(answer),context_length=window,record=False),db=db,session_id="s",system_prompt="Be brief.",tools=Registry([tool(toolset="test",effect="none")(read)]),auxiliary=AnyBehaviour(["good"]),on_event=lambda e: print("  EV",e) if "Compress" in type(e).__name__ else None)
        agent.run_conversation(spoken.marked("[use tools]"))
    assert 0
