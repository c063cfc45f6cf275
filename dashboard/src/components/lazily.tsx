import type { ComponentType } from "preact";
import { useLoad } from "../use-load";
import { Failure, Loading } from "./states";

/** A component whose code is fetched when it is first shown. */
export function lazily<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
): ComponentType<Props> {
  return (props: Props) => {
    const { value: Loaded, error, reload } = useLoad(load, []);
    if (Loaded) {
      return <Loaded {...props} />;
    }
    return error ? <Failure error={error} onRetry={reload} /> : <Loading />;
  };
}
