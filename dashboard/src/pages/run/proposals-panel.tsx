import { runPath } from "../../api/source";
import type { Proposals, RunView } from "../../api/types";
import { Fact, known, yesNo } from "../../components/fact";
import { number, writerOf } from "../../format";
import { texts } from "../../i18n";
import { runWord } from "../runs/words";
import { AskedPanel, useAsked } from "./asked";
import { Gain } from "./gain";

const RATIO_DIGITS = 2;

type Proposal = Proposals["proposals"][number];

/** Other shapes of the run that would be faster. */
export function ProposalsPanel(props: { run: RunView }) {
  const t = texts().runs.proposals;
  const asked = useAsked<Proposals>(`${runPath(props.run.id)}/proposals`);
  return (
    <AskedPanel asked={asked} title={t.title} texts={t}>
      {(found) => (
        <>
          <p>
            {t.imbalance(
              number(found.imbalance, RATIO_DIGITS),
              number(found.threshold, RATIO_DIGITS),
            )}
          </p>
          {found.proposals.length === 0 && <p>{t.none}</p>}
          {found.proposals.map((proposal) => (
            <ProposalPart key={proposal.kind} proposal={proposal} />
          ))}
          <Notes notes={found.notes} />
        </>
      )}
    </AskedPanel>
  );
}

function ProposalPart(props: { proposal: Proposal }) {
  const t = texts().runs.proposals;
  const { proposal } = props;
  const { baseline } = proposal;
  const times = [proposal.predicted_ns, proposal.running_ns, proposal.lower_bound_ns];
  const time = writerOf("time", times);
  return (
    <section class="cause">
      <h3>{runWord("proposal", proposal.kind)}</h3>
      <p lang="en">{proposal.reason}</p>
      <dl class="facts">
        <Fact name={t.gain}>
          <Gain share={proposal.predicted_gain} />
        </Fact>
        <Fact name={t.microBatches}>
          {t.ofSize(proposal.micro_batches, proposal.micro_batch_size)}
        </Fact>
        <Fact name={t.layers}>{proposal.layers_per_stage?.join(", ")}</Fact>
        <Fact name={t.predicted}>{time(proposal.predicted_ns)}</Fact>
        <Fact name={t.running}>{known(proposal.running_ns, time)}</Fact>
        <Fact name={t.bound}>{known(proposal.lower_bound_ns, time)}</Fact>
        <Fact name={t.restart}>{yesNo(proposal.needs_restart)}</Fact>
        <Fact name={t.baseline}>
          {baseline &&
            t.baselineOf(baseline.micro_batches, known(baseline.predicted_ns, time) ?? "–")}
        </Fact>
      </dl>
      <Notes notes={proposal.notes} />
    </section>
  );
}

function Notes(props: { notes: readonly string[] | undefined }) {
  if (props.notes === undefined || props.notes.length === 0) {
    return null;
  }
  return (
    <ul class="faint small" lang="en">
      {props.notes.map((note) => (
        <li key={note}>{note}</li>
      ))}
    </ul>
  );
}
